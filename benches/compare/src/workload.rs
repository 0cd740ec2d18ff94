#[derive(Debug)]
pub struct Workload {
    pub id: &'static str,
    pub title: &'static str,
    pub what: &'static str,
    /// The measure whose ratio to the baseline is reported.
    pub measure: &'static str,
    pub more_is_better: bool,
    /// The number that grows, such as `waiters`.
    pub grows: Option<&'static str>,
    pub columns: &'static [&'static str],
}

pub const PROCESSES: usize = 8;

const HAND_OVER: Workload = Workload {
    id: "hand-over",
    title: "Hand-over: 8 processes, an empty section",
    what: "Eight processes contend for one name, and release it as soon as they hold it. A \
           hand-over is a grant to a different process than the last.",
    measure: "hand_overs_per_second",
    more_is_better: true,
    grows: None,
    columns: &[
        "wait_p50_us",
        "wait_p99_us",
        "longest_wait_us",
        "jain",
        "server_commands_per_hand_over",
    ],
};

pub const WORKLOADS: &[Workload] = &[
    Workload {
        id: "pairs",
        title: "Uncontended: acquire and release",
        what: "One process repeatedly acquires and releases a name without contention.",
        measure: "pairs_per_second",
        more_is_better: true,
        grows: None,
        columns: &[
            "p50_us",
            "p99_us",
            "client_cpu_us_per_pair",
            "server_cpu_us_per_pair",
            "server_commands_per_pair",
        ],
    },
    HAND_OVER,
    Workload {
        id: "hand-over-5ms",
        title: "Hand-over: 8 processes, a section of 5 ms",
        what: "The same, but each process holds the name for 5 ms: 200 hand-overs a second would \
               be perfect.",
        ..HAND_OVER
    },
    Workload {
        id: "tasks",
        title: "8 tasks of one process on one name",
        what: "Eight tasks (or threads) of one process contend for one name, and release it as \
               soon as they hold it.",
        measure: "turns_per_second",
        columns: &["wait_p50_us", "wait_p99_us", "jain", "server_commands_per_turn"],
        ..HAND_OVER
    },
    Workload {
        id: "waiting",
        title: "100 waiters",
        what: "The server's load while 100 waiters in 4 processes wait for a name that stays held.",
        measure: "server_commands_per_second",
        more_is_better: false,
        grows: None,
        columns: &["keep_alives_per_second", "server_cpu_percent", "client_cpu_percent"],
    },
    Workload {
        id: "renewal",
        title: "Renewal of many holds",
        what: "One process keeps this number of holds alive, at a TTL of 15 s.",
        measure: "server_cpu_percent",
        more_is_better: false,
        grows: Some("holds"),
        columns: &[
            "client_cpu_percent",
            "client_bytes_per_hold",
            "server_bytes_per_hold",
            "server_commands_per_second",
            "keep_alives_per_second",
        ],
    },
    Workload {
        id: "waiters",
        title: "Growth with waiters",
        what: "Hand-overs with an empty section, with this number of waiters in 8 processes.",
        grows: Some("waiters"),
        ..HAND_OVER
    },
    Workload {
        id: "held",
        title: "Growth with held names",
        what: "Uncontended acquire and release in a process that holds this number of other names.",
        measure: "pairs_per_second",
        more_is_better: true,
        grows: Some("held names"),
        columns: &["p50_us", "p99_us"],
    },
    Workload {
        id: "processes",
        title: "Growth with processes",
        what: "Hand-overs with an empty section between this number of processes.",
        grows: Some("processes"),
        ..HAND_OVER
    },
];

impl Workload {
    pub fn of(id: &str) -> Option<&'static Self> {
        WORKLOADS.iter().find(|workload| workload.id == id)
    }
}
