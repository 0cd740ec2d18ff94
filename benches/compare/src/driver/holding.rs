use std::time::Duration;

use super::backend_run::{BackendRun, of_pairs};
use super::cores;
use super::pace::TTL;
use super::subject::{RunningSubject, Used};
use super::table::{Key, Round};
use super::worker::Failure;
use crate::results::Regime;

const REGIME: Regime = Regime::TwoCores;

const WAITING_PROCESSES: usize = 4;

impl BackendRun<'_> {
    pub(super) fn measure_waiting(&mut self) {
        if !self.wants("waiting") || self.is_in_one_process() {
            return;
        }
        self.dismiss_all();
        self.each("waiting", REGIME, 0, 0, |subject, lock| {
            let (waited, time) = (subject.wait(lock), subject.pace.waiting);
            let round = waited.and_then(|()| subject.watch(WAITING_PROCESSES + 1, time));
            subject.dismiss();
            round
        });
    }

    pub(super) fn measure_holds(&mut self) {
        if !self.wants("renewal") && !self.wants("held") {
            return;
        }
        self.dismiss_all();
        let holds: Vec<u64> = [1].into_iter().chain(self.pace.holds.clone()).collect();
        for (round, count) in holds.into_iter().enumerate() {
            for at in 0..self.subjects.len() {
                // Each count starts with a different subject, because later ones may reuse memory
                // that the server has allocated.
                let subject = (at + round) % self.subjects.len();
                let kind = self.subjects[subject].program.kind;
                if self.pace.is_for(kind, "renewal", count, REGIME) {
                    self.measure_hold(subject, count);
                    self.subjects[subject].dismiss();
                }
            }
        }
    }

    fn measure_hold(&mut self, subject: usize, count: u64) {
        let name = self.subjects[subject].program.handshake.name.clone();
        self.progress.say(&format!("{}, {count} holds: {name}", self.backend));
        let key = |workload, at| Key { workload, at, regime: REGIME, subject: name.clone() };
        let fewer = self.pace.holds.iter().filter(|fewer| **fewer < count);
        if fewer.chain(&[1]).any(|fewer| self.table.is_over(&key("renewal", *fewer))) {
            let why = "it couldn't have fewer".to_owned();
            return self.table.add(key("renewal", count), Err(Failure::Cannot(why)));
        }
        let renewal = self.held(subject, count);
        if let Ok((held, _)) = &renewal
            && *held < count
        {
            let time = self.pace.holding.as_secs();
            let note =
                format!("it held only {held} of them after {time} s, so they aren't compared");
            self.table.give_up(key("renewal", count), note);
        } else if count > 1 || renewal.is_err() {
            self.table.add(key("renewal", count), renewal.map(|(_, round)| round));
        }
    }

    fn held(&mut self, subject: usize, count: u64) -> Result<(u64, Round), Failure> {
        let pace = self.pace;
        let name = self.subjects[subject].program.handshake.name.clone();
        let prefix = format!("bench/{}/{name}/holds/{count}", self.backend);
        let (held, mut round) = self.subjects[subject].hold(&prefix, count)?;
        if count > 1 && held == count && self.wants("renewal") {
            std::thread::sleep(pace.before_renewal);
            round.append(self.subjects[subject].watch(1, pace.renewal)?);
        }
        if held == count && self.wants("held") {
            for at in 0..pace.rounds {
                let lock = format!("{prefix}/other/{at}");
                let pairs = self.subjects[subject].pairs(REGIME, &lock, pace.pairs)?;
                let key =
                    Key { workload: "held", at: count, regime: REGIME, subject: name.clone() };
                self.table.add(key, Ok(of_pairs(pairs)));
            }
        }
        let workers = self.subjects[subject].spawn(1)?;
        workers[0].send("drop");
        workers[0].answer("dropped", pace.holding)?;
        Ok((held, round))
    }
}

impl RunningSubject<'_> {
    fn wait(&mut self, lock: &str) -> Result<(), Failure> {
        // The processes may have threads of earlier measurements.
        self.dismiss();
        let (pace, ttl) = (self.pace, TTL.as_millis());
        let waited = self.used(REGIME, WAITING_PROCESSES + 1, |workers| {
            let (holder, waiting) = workers.split_first_mut().expect("there are five");
            holder.send(&format!("hold {lock} 0 1 {ttl} 10000"));
            holder.answer("held", Duration::ZERO)?;
            let each = pace.waiters_waiting / WAITING_PROCESSES;
            let wait = format!("wait {lock}/0 {ttl} {each}");
            waiting.iter_mut().for_each(|worker| worker.send(&wait));
            for worker in waiting {
                worker.answer("waiting", Duration::ZERO)?;
            }
            std::thread::sleep(pace.settling);
            Ok(())
        });
        waited.map(drop)
    }

    fn hold(&mut self, prefix: &str, count: u64) -> Result<(u64, Round), Failure> {
        self.dismiss();
        let (servers, pace) = (self.servers, self.pace);
        let mut round = Round::default();
        let used = self.used(REGIME, 1, |workers| {
            let memory = |of: &[u32]| cores::memory(of) as f64;
            let ours = [workers[0].pid()];
            let before = (memory(&servers.processes()), memory(&ours));
            let (ttl, time) = (TTL.as_millis(), pace.holding.as_millis());
            workers[0].send(&format!("hold {prefix} 0 {count} {ttl} {time}"));
            let answer = workers[0].answer("held", pace.holding)?;
            let is_no_number = |_| Failure::Failed(format!("not a number: {answer:?}"));
            let held = answer.trim().parse().map_err(is_no_number)?;
            let after = (memory(&servers.processes()), memory(&ours));
            round.add("server_bytes_per_hold", (after.0 - before.0) / held as f64);
            round.add("client_bytes_per_hold", (after.1 - before.1) / held as f64);
            Ok(held)
        })?;
        Ok((used.of, round))
    }

    fn watch(&mut self, processes: usize, time: Duration) -> Result<Round, Failure> {
        let Used { served, keep_alives, servers_us, subject_us, .. } =
            self.used(REGIME, processes, |_| {
                std::thread::sleep(time);
                Ok(())
            })?;
        let mut round = Round::default();
        let seconds = time.as_secs_f64();
        round.add("server_commands_per_second", served.map(|served| served / seconds));
        round.add("keep_alives_per_second", keep_alives.map(|count| count / seconds));
        round.add("server_cpu_percent", servers_us / seconds / 1e4);
        round.add("client_cpu_percent", subject_us / seconds / 1e4);
        Ok(round)
    }
}
