//! Which case is there to find what is wrong with a backend or a client.

use crate::fixtures::{Flaw, HallFlaw};

/// Each flaw of a backend, the case that is there to find it, and what that case then says.
pub(crate) const BACKENDS: &[(Flaw, &str, &str)] = &[
    (Flaw::TwoStepExpiry, "a_client_that_dies_while_asking_leaves_an_expiry", "still not granted"),
    (Flaw::LooksThenTakes, "only_one_of_many_is_granted", "were granted"),
    (Flaw::DeleteWithoutCompare, "a_foreign_release_changes_nothing", "a foreign token"),
    (Flaw::SettlingDeletesBlindly, "a_settling_release_spares_the_holder", "never held"),
    (Flaw::RepeatWithoutRearming, "a_repeat_is_valid_for_what_it_says", "was said to end"),
    (Flaw::RepeatIsBusy, "a_repeat_is_the_same_hold", "its own token"),
    (Flaw::RepeatGetsANewFence, "a_repeat_has_the_first_fence", "and then"),
    (Flaw::CountsRepeats, "a_repeat_is_not_a_second_hold", "not granted though"),
    (Flaw::StartAfterTheGrant, "a_grant_lasts_from_its_start", "was said to end"),
    (Flaw::FenceResetByRelease, "fences_grow_through_releases", "came after"),
    (Flaw::FenceResetByExpiry, "fences_grow_through_expiry", "which had expired"),
    (Flaw::FenceFromAnOldSnapshot, "fences_grow_when_many_contend", "one fence"),
    (Flaw::ImpreciseFence, "fences_grow_through_releases", "came after"),
    (Flaw::BlockNotReserved, "a_reserved_block_is_passed", "in a block"),
    (Flaw::QueuesTheUnwilling, "a_refused_claim_leaves_nothing_behind", "not granted though"),
    (Flaw::ForgetsWithdrawals, "a_withdrawn_claim_is_never_granted", "not granted though"),
    (Flaw::ForgetsWithdrawals, "a_waiter_that_vanished_is_passed_over", "still not granted"),
    (Flaw::LostWakeUp, "a_release_wakes_the_waiter", "it polls each"),
    (Flaw::BlocksAlways, "one_attempt_never_blocks", "wasn't answered within"),
    (Flaw::NeverExpires, "a_hold_is_free_after_its_ttl", "still not granted"),
    (Flaw::TtlRoundedDown, "a_hold_is_not_free_before_its_ttl", "early"),
    (Flaw::TtlInSeconds, "a_hold_is_not_free_before_its_ttl", "early"),
    (Flaw::OneTtlForAll, "each_hold_has_its_own_ttl", "granted to a second"),
    (Flaw::ShowsWhatExpired, "an_expired_hold_is_not_shown", "still shown"),
    (Flaw::RenewRevives, "an_expired_hold_is_not_revived", "had run out was renewed"),
    (Flaw::RenewWithoutCompare, "a_foreign_renewal_finds_nothing", "a foreign token"),
    (Flaw::RenewDoesNothing, "a_renewal_is_for_a_full_ttl", "what the renewal promised"),
    (Flaw::BatchOutOfOrder, "a_batch_is_answered_in_order", "was answered"),
    (Flaw::ShortBatch, "a_full_batch_is_renewed", "were renewed"),
    (Flaw::NoTombstones, "a_late_duplicate_is_kept_out", "a settled token"),
    (Flaw::BreakHitsTheNext, "a_break_spares_the_next_holder", "the next one's hold"),
    (Flaw::BreakHitsTheNext, "a_break_names_whom_it_was_passed_on_to", "an old token broke it"),
    (Flaw::BreakIsFinal, "a_break_can_be_hastened", "the second was answered"),
    (Flaw::FreedIsRenewed, "a_freed_client_is_told", "never told"),
    (Flaw::BreakForgetsTheBlock, "a_break_passes_the_block", "broken block"),
    (Flaw::BreakForgetsWhy, "a_break_says_who_and_why", "the note is"),
    (Flaw::BreakAdmitsNoOverlap, "a_hold_can_be_freed_at_once", "it admits"),
    (Flaw::BrokenIsRenewed, "a_broken_hold_runs_out", "its renewal"),
    (Flaw::RepeatRearmsABrokenHold, "a_broken_hold_is_not_rearmed", "still not granted"),
    (Flaw::ListStopsEarly, "a_listing_has_each_name_once", "listed 0 times"),
    (Flaw::ListRepeats, "a_listing_has_each_name_once", "listed 2 times"),
    (Flaw::WildcardsInPrefix, "wildcards_in_a_prefix_mean_nothing", "lists"),
    (Flaw::PrefixConfusion, "a_prefix_is_another_name", "not granted though"),
    (Flaw::FoldsCase, "case_matters", "not granted though"),
    (Flaw::SquashesSpaces, "spaces_and_accents_matter", "not granted though"),
    (Flaw::HashTags, "awkward_names_are_names", "not granted though"),
    (Flaw::CutsLongNames, "the_longest_name_is_a_name", "not granted though"),
];

/// Each of these flaws, the case that is there to find it, and what that case then says.
pub(crate) const HALLS: &[(HallFlaw, &str, &str)] = &[
    (HallFlaw::WriterBesideReaders, "readers_hold_beside_each_other", "granted to a second"),
    (HallFlaw::WriterBesideReaders, "a_writer_waits_for_the_last_reader", "granted to a second"),
    (HallFlaw::ReaderBesideAWriter, "a_reader_waits_for_the_writer", "granted to a second"),
    (HallFlaw::ReadersPassTheWriter, "a_waiting_writer_stops_new_readers", "beside a writer"),
    (
        HallFlaw::VanishedStayInTheQueue,
        "a_vanished_writer_stops_readers_for_a_bounded_time",
        "still not granted",
    ),
    (HallFlaw::ExpireTogether, "each_reader_expires_alone", "the other reader's time wasn't up"),
    (HallFlaw::OneExpiryForAll, "each_reader_expires_alone", "whose time was up was renewed"),
    (HallFlaw::ReleaseEndsAll, "a_writer_waits_for_the_last_reader", "granted to a second"),
    (HallFlaw::CountsHolders, "a_reader_ends_its_own_hold_only", "was answered Released"),
    (HallFlaw::RepeatIsASecondHold, "a_repeated_reader_is_one_hold", "not granted though"),
    (HallFlaw::EachReaderHasAFence, "readers_share_a_fence", "have the fences"),
    (HallFlaw::ShowsOneHolder, "each_reader_is_shown", "and it shows"),
    (HallFlaw::BreakHitsAll, "a_broken_reader_leaves_the_others", "another reader's renewal"),
    (HallFlaw::WritersArentWoken, "the_last_readers_release_wakes_the_writer", "was not woken"),
    (HallFlaw::ReadersArentWoken, "a_writers_release_wakes_all_readers", "was not woken"),
    (HallFlaw::OneMoreThanThereAre, "as_many_are_granted_as_there_are", "granted to a second"),
    (HallFlaw::WeightsDontCount, "weights_are_counted", "granted to a second"),
    (HallFlaw::ExpireTogether, "each_permit_expires_alone", "the other's time wasn't up"),
    (HallFlaw::OneExpiryForAll, "each_permit_expires_alone", "whose time was up was renewed"),
    (HallFlaw::CountsHolders, "a_permits_release_ends_its_own_hold_only", "was answered Released"),
    (HallFlaw::RepeatIsASecondHold, "a_repeat_takes_no_second_permit", "and then"),
    (HallFlaw::SizesMix, "sizes_do_not_mix", "it was answered"),
    (HallFlaw::KindsMix, "a_semaphore_is_no_lock", "it was answered"),
    (HallFlaw::IdsAreNumbers, "ids_are_unique", "was given twice"),
    (HallFlaw::ShowsOneHolder, "each_permit_is_shown", "isn't shown"),
    (HallFlaw::BreakHitsAll, "a_broken_permit_leaves_the_others", "another one's renewal"),
    (HallFlaw::SmallOnesPass, "a_large_claim_is_not_overtaken", "granted to a second"),
    (HallFlaw::PermitsWakeNobody, "a_freed_permit_wakes_the_waiter", "was not woken"),
    (HallFlaw::WakesOneOfMany, "all_who_fit_are_woken", "who fit"),
    (HallFlaw::ShowsNoTokens, "one_lock_of_two_clients_is_noticed", "one lock, twice"),
    (HallFlaw::ForgetsValues, "the_leaders_value_is_seen", "is seen"),
    (HallFlaw::ForgetsValues, "leaders_are_observed", "was told"),
    (HallFlaw::TicketsAreGoodForever, "a_ticket_is_good_once", "a second resumption"),
    (
        HallFlaw::TicketsAreGoodForever,
        "a_ticket_that_nobody_resumes_runs_out",
        "a resumption of what has run out",
    ),
    (HallFlaw::SwapKeepsTheFence, "a_hold_moves_to_another_client", "after it moved"),
    (HallFlaw::OldTokensStayGood, "an_old_token_is_worth_nothing", "by the old token"),
    (HallFlaw::RepeatedSwapIsRefused, "a_repeated_swap_is_the_same_hold", "a repeat was refused"),
    (HallFlaw::BrokenMoves, "a_broken_hold_does_not_move", "of a broken hold"),
    (
        HallFlaw::RepeatedSwapRearms,
        "a_repeated_swap_does_not_rearm_a_broken_hold",
        "still not granted",
    ),
    (
        HallFlaw::BreakHitsTheMoved,
        "a_moved_hold_is_broken_by_its_new_token",
        "an old token broke it",
    ),
    (HallFlaw::NewcomersOvertake, "a_newcomer_overtakes_nobody", "granted to a second"),
    (HallFlaw::LastComeFirstServed, "clients_are_served_in_order", "in the order"),
    (HallFlaw::LastComeFirstServed, "a_withdrawn_waiter_is_passed_over", "in the order"),
    (HallFlaw::WithdrawnAreServed, "a_withdrawn_waiter_is_passed_over", "should wait"),
    (HallFlaw::OffersTheFullTtl, "silent_waiters_are_passed_over", "still not granted"),
];

/// What is wrong with something protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShelfFlaw {
    /// Nothing.
    None,
    AcceptsAnything,
    RefusesRepeats,
    RemembersWhoCameLast,
    EachWriterRemembers,
    WritesThenLooks,
    LooksThenWrites,
    SaysConflict,
    NamesNoFence,
    OneFenceForAll,
}

/// Each of these flaws, the case that is there to find it, and what that case then says.
pub(crate) const SHELVES: &[(ShelfFlaw, &str, &str)] = &[
    (ShelfFlaw::AcceptsAnything, "a_paused_holders_late_write_is_refused", "was accepted after"),
    (ShelfFlaw::RefusesRepeats, "a_holder_writes_again_and_again", "Superseded"),
    (ShelfFlaw::RemembersWhoCameLast, "what_is_refused_stays_refused", "was accepted after"),
    (ShelfFlaw::EachWriterRemembers, "what_is_refused_stays_refused", "was accepted after"),
    (ShelfFlaw::WritesThenLooks, "a_refused_write_changes_nothing", "was written last"),
    (ShelfFlaw::LooksThenWrites, "of_those_who_write_at_once_the_latest_stays", "was written last"),
    (ShelfFlaw::SaysConflict, "a_refused_write_changes_nothing", "was answered"),
    (ShelfFlaw::NamesNoFence, "a_refused_write_changes_nothing", "it doesn't say"),
    (ShelfFlaw::OneFenceForAll, "each_name_has_a_fence_of_its_own", "Superseded"),
];

/// What is wrong with a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientFlaw {
    /// Nothing.
    None,
    AnchorsAtTheReply,
    BelievesLateGrants,
    KeeperDiesOfAPanic,
    WaitsForTheRenewal,
    MonotonicClock,
}

/// Each flaw of a client, and the case that finds it.
pub(crate) const CLIENTS: &[(ClientFlaw, &str, &str)] = &[
    (
        ClientFlaw::AnchorsAtTheReply,
        "a_deadline_is_reckoned_from_the_send",
        "after another one was granted",
    ),
    (
        ClientFlaw::BelievesLateGrants,
        "a_grant_after_its_deadline_is_none",
        "after another one was granted",
    ),
    (
        ClientFlaw::KeeperDiesOfAPanic,
        "a_loss_is_told_though_renewals_panic",
        "the loss was never told",
    ),
    (
        ClientFlaw::WaitsForTheRenewal,
        "a_loss_is_told_while_renewals_hang",
        "the loss was never told",
    ),
    (ClientFlaw::MonotonicClock, "a_suspended_client_stops_believing", "it still believed"),
];
