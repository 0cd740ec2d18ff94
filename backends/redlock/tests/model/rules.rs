//! The promises, the rules that can be left out, and the bounds.

use crate::state::MOST_ROUNDS;

/// What is promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Promise {
    /// No two believe at the same time.
    OneBelieves,
    /// No two grants have the same fence.
    FencesDiffer,
    /// A later grant has a larger fence.
    FencesGrow,
    /// A token that was released everywhere is held nowhere.
    NothingIsLeft,
    /// When all is over, the next who asks is granted.
    TheNextIsGranted,
}

/// When a renewal counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// When a quorum still has the token. Only then the others are topped up.
    KeptByQuorum,
    /// When a quorum has the token afterwards: nodes that lost it take it anew, and count.
    TopsUpToQuorum,
}

/// What the fence that a quorum settled on does to the one that a node has noted as the hold's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Note {
    /// Replaces it.
    Replaces,
    /// Replaces it if it is smaller.
    Raises,
}

/// The rules that can be broken, each as it ought to be in [`Rules::default`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// More than half of the nodes have to say yes; else half.
    pub(crate) majority: bool,
    pub(crate) write_back: bool,
    /// What is written back goes to those only that said yes; else to all.
    pub(crate) writes_to_voters: bool,
    pub(crate) raise_checks_token: bool,
    pub(crate) note: Note,
    /// A round whose deadline has passed is given up.
    pub(crate) abandons_late: bool,
    /// The deadline is reckoned from the round's start; else from its last answer.
    pub(crate) anchored_at_start: bool,
    /// A node that lost its data doesn't vote until what it forgot is over.
    pub(crate) quarantine: bool,
    /// A request names the incarnation of the data that it is meant for.
    pub(crate) compares_certificate: bool,
    /// The candidate is chosen after the certificates were seen.
    pub(crate) looks_before_candidate: bool,
    /// A candidate is above the fences of a whole hold ago.
    pub(crate) clocks_are_near: bool,
    pub(crate) release_checks_token: bool,
    /// A token isn't asked for again where a release of it is on its way.
    pub(crate) release_before_repeat: bool,
    /// Nor where a request of it is on its way.
    pub(crate) answer_before_repeat: bool,
    pub(crate) tombstones: bool,
    pub(crate) renewal: Renewal,
    /// A renewal is of no use once the belief has ended.
    pub(crate) renewal_ends_with_belief: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            majority: true,
            write_back: true,
            writes_to_voters: true,
            raise_checks_token: true,
            note: Note::Replaces,
            abandons_late: true,
            anchored_at_start: true,
            quarantine: true,
            compares_certificate: true,
            looks_before_candidate: true,
            clocks_are_near: true,
            release_checks_token: true,
            release_before_repeat: true,
            answer_before_repeat: true,
            tombstones: true,
            renewal: Renewal::KeptByQuorum,
            renewal_ends_with_belief: true,
        }
    }
}

/// What is explored, and how far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// Rounds in all: those of claims, repeats and renewals.
    pub(crate) rounds: usize,
    /// Tokens in all.
    pub(crate) claims: usize,
    /// Candidates are 1 to this.
    pub(crate) candidates: u64,
    /// How often a node loses all its data.
    pub(crate) losses: u64,
    /// How often a node's clock jumps forward.
    pub(crate) jumps: u64,
    /// Whether a token is asked for again after a round that failed.
    pub(crate) repeats: bool,
    pub(crate) renewals: bool,
    /// How often a request is carried out once more.
    pub(crate) duplicates: u64,
    /// Whether releases are messages of their own. Otherwise a token may go at any time from every
    /// node once its rounds are over, which covers them and more.
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
