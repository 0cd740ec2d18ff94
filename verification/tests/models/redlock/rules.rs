use super::state::MOST_ROUNDS;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Promise {
    OneHolder,
    FencesDiffer,
    FencesGrow,
    NothingIsLeft,
    TheNextIsGranted,
}

/// The rules that a mutant of the protocol lacks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Missing {
    /// A quorum is more than half of the nodes. Without this rule, it is half.
    pub(crate) majority: bool,
    /// The client writes its chosen fence back to the nodes that answered with another fence.
    pub(crate) write_back: bool,
    /// Only nodes that granted the claim get the write-back. Without this rule, all nodes get it.
    pub(crate) writes_to_voters: bool,
    pub(crate) raise_checks_token: bool,
    /// A write-back replaces the fence that a node has recorded for the hold. Without this rule, it
    /// only raises the fence.
    pub(crate) note_replaces: bool,
    /// The client gives up a round past its deadline.
    pub(crate) abandons_late: bool,
    /// A deadline counts from the round's start. Without this rule, it counts from the last reply.
    pub(crate) anchored_at_start: bool,
    /// A node that lost its data doesn't vote until the lost holds are over.
    pub(crate) quarantine: bool,
    /// A request names the expected incarnation. A node with another incarnation ignores the
    /// request.
    pub(crate) compares_incarnation: bool,
    /// The client reads the nodes' incarnations before it chooses a candidate.
    pub(crate) looks_before_candidate: bool,
    /// The clients' clocks, which give the candidates, are close to each other. So candidates are
    /// above all fences that are older than the largest TTL.
    pub(crate) clocks_are_near: bool,
    pub(crate) release_checks_token: bool,
    /// No request with a token goes to a node while the token's release is in flight to it.
    pub(crate) release_before_repeat: bool,
    /// The client sends a node no request while an earlier request with the same token is in
    /// flight.
    pub(crate) answer_before_repeat: bool,
    pub(crate) tombstones: bool,
    /// Nodes that lost the token acquire it again only if a quorum still has the hold. Without this
    /// rule, they always acquire it again, and count for the quorum.
    pub(crate) tops_up_after_quorum: bool,
    /// When a hold ends, its unanswered renewals fail.
    pub(crate) renewal_ends_with_validity: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) rounds: usize,
    pub(crate) claims: usize,
    /// The largest candidate for the fence. The smallest is 1.
    pub(crate) candidates: u64,
    pub(crate) losses: u64,
    pub(crate) jumps: u64,
    /// Tokens may be requested again after a failed round.
    pub(crate) repeats: bool,
    pub(crate) renewals: bool,
    /// The number of requests that are executed twice.
    pub(crate) duplicates: u64,
    /// True if releases are messages. Otherwise, any node may drop a token after its rounds have
    /// ended, which has the same effects.
    pub(crate) releases: bool,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            rounds: 3,
            claims: MOST_ROUNDS,
            candidates: 2,
            losses: 0,
            jumps: 0,
            repeats: false,
            renewals: false,
            duplicates: 0,
            releases: false,
        }
    }
}
