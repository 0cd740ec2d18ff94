// The subjects' side of the benchmarks' protocol in Node.js. A subject calls `serve` with its
// handshake and its library. benches/compare/README.md describes the protocol.
//
// Tasks are async functions. A library has
// - open(backend, urls): connects
// - lock(name, ttl): acquires a name, with the library's own wait, and returns the hold
// - unlock(hold): releases; throws Lost if the hold is known to have expired
// - renew(hold, ttl): renews and returns the new hold; for libraries without automatic renewal
'use strict';

const fs = require('fs');
const path = require('path');
const readline = require('readline');
const timers = require('timers/promises');

const AT_A_TIME = 64;

const now = process.hrtime.bigint;

class Lost extends Error {
  constructor() {
    super('a lock had expired before it was released');
    this.name = 'Lost';
  }
}

// Returns the packages' names with their installed versions.
function versions(...packages) {
  const version = (name) => {
    const folder = path.join('node_modules', name);
    const [above] = require.resolve(name).split(folder + path.sep);
    const { version } = JSON.parse(fs.readFileSync(path.join(above, folder, 'package.json')));
    return version.replace(/^v/, '');
  };
  return packages.map((name) => `${name} ${version(name)}`).join(', ');
}

class Subject {
  constructor(library) {
    this.library = library;
    this.held = [];
    this.keeper = null;
  }

  async open(backend, ...urls) {
    await this.library.open(backend, urls);
    return 'ready';
  }

  async pairs(name, ttl, limit) {
    const times = [];
    let begun = now();
    const end = begun + BigInt(limit) * 1_000_000n;
    while (begun < end) {
      await this.library.unlock(await this.library.lock(name, Number(ttl)));
      const over = now();
      times.push(over - begun);
      begun = over;
    }
    return ['pairs', ...times].join(' ');
  }

  async turns(name, ttl, tasks, start, end, section) {
    const turns = ['turns'];
    const play = async (task) => {
      while (now() < BigInt(start)) {
        await timers.setTimeout(Number(BigInt(start) - now()) / 1e6);
      }
      for (;;) {
        const asked = now();
        if (asked >= BigInt(end)) return;
        const hold = await this.library.lock(name, Number(ttl));
        const granted = now();
        if (Number(section)) await timers.setTimeout(Number(section) / 1e3);
        const released = now();
        let lost = '';
        try {
          await this.library.unlock(hold);
        } catch (error) {
          if (!(error instanceof Lost)) throw error;
          lost = ':lost';
        }
        turns.push(`${task}:${asked}:${granted}:${released}${lost}`);
      }
    };
    await Promise.all(Array.from({ length: Number(tasks) }, (_, task) => play(task)));
    return turns.join(' ');
  }

  async hold(prefix, first, count, ttl, limit) {
    const end = now() + BigInt(limit) * 1_000_000n;
    const held = [];
    this.held = held;
    if (this.library.renew) this.keeper = new Keeper(this.library, held, Number(ttl));
    await atOnce(Number(count), async (number) => {
      if (now() >= end) return;
      held.push(await this.library.lock(`${prefix}/${Number(first) + number}`, Number(ttl)));
    });
    return `held ${held.length}`;
  }

  async wait(name, ttl, tasks) {
    for (let task = 0; task < Number(tasks); task++) {
      this.library.lock(name, Number(ttl)).then(
        () => console.error('a waiter was granted what somebody else holds'),
        (error) => console.error(complaint(error)),
      );
    }
    await timers.setImmediate(); // each waiting task has sent its request
    return 'waiting';
  }

  async drop() {
    if (this.keeper) await this.keeper.stop();
    const held = this.held;
    this.held = [];
    this.keeper = null;
    await atOnce(held.length, (number) => this.library.unlock(held[number]));
    return 'dropped';
  }
}

// Renews the holds one after the other, at a third of the TTL.
class Keeper {
  constructor(library, held, ttl) {
    this.stopped = new AbortController();
    this.kept = this.keep(library, held, ttl).catch((error) => {
      if (error.name !== 'AbortError') console.error(complaint(error));
    });
  }

  async keep(library, held, ttl) {
    const { signal } = this.stopped;
    for (;;) {
      await timers.setTimeout(ttl / 3, undefined, { signal });
      for (let number = 0; number < held.length && !signal.aborted; number++) {
        held[number] = await library.renew(held[number], ttl);
      }
    }
  }

  async stop() {
    this.stopped.abort();
    await this.kept;
  }
}

// Calls `does` for each number below `count`, several in parallel, until a call fails.
async function atOnce(count, does) {
  let next = 0;
  const work = async () => {
    while (next < count) await does(next++);
  };
  try {
    await Promise.all(Array.from({ length: AT_A_TIME }, work));
  } finally {
    next = count;
  }
}

function complaint(error) {
  return `error ${error.name}: ${error.message}`.replace(/\s+/g, ' ');
}

async function serve(handshake, library) {
  console.log(JSON.stringify({ ...handshake, runtime: `Node.js ${process.versions.node}` }));
  const commands = readline.createInterface({ input: process.stdin });
  // The subject exits without releasing locks.
  commands.on('close', () => process.exit(0));
  const subject = new Subject(library);
  const known = ['open', 'pairs', 'turns', 'hold', 'wait', 'drop'];
  for await (const command of commands) {
    const [what, ...words] = command.trim().split(/\s+/);
    let answer;
    try {
      if (!known.includes(what)) throw new Error(`no such command: ${JSON.stringify(command)}`);
      answer = await subject[what](...words);
    } catch (error) {
      answer = complaint(error);
    }
    console.log(answer);
  }
}

module.exports = { Lost, serve, versions };
