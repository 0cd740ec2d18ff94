/// Implements `DistributedLock` by calls of the backend in field 0. The methods return that backend's
/// boxed future, because an `async fn` would box it again.
macro_rules! delegate {
    ($backend:ty) => {
        $crate::server::delegate::delegate!($backend:
            acquire<'c>(claim: &'c Claim, wait: Wait) -> AcquireOutcome;
            renew<'h, 'r>(holds: &'h [Renew<'r>]) -> Vec<Renewal>;
            release<'c>(claim: &'c Claim, release_mode: ReleaseMode) -> ReleaseOutcome;
            swap<'c>(from: Token, to: &'c Claim) -> AcquireOutcome;
            inspect<'n>(name: &'n LockName) -> Inspection;
            list<'p>(prefix: &'p str, from: Option<Cursor>) -> Page;
            break_lock<'n, 'b, 'r>(
                name: &'n LockName, seen: BreakTarget, how: BreakMode, by: &'b str, reason: &'r str
            ) -> Broken;
            sweep<>(idle: Duration) -> SweepReport;
            doctor<>() -> Vec<Finding>;
        );
    };
    ($backend:ty: $(
        $name:ident<$($lifetime:lifetime),*>($($argument:ident: $type:ty),*) -> $output:ty;
    )*) => {
        const _: () = {
            use std::pin::Pin;
            use std::time::Duration;

            use lockwright_core::{
                AcquireOutcome, BreakMode, BreakTarget, Broken, Claim, Cursor, DistributedLock,
                Events, Finding, Inspection, LockName, Page, Profile, ReleaseMode, ReleaseOutcome,
                Renew, Renewal, Result, SweepReport, Token, Wait,
            };

            impl DistributedLock for $backend {
                fn profile(&self) -> &Profile {
                    self.0.profile()
                }

                fn attach(&self, events: Events) {
                    self.0.attach(events);
                }

                $(fn $name<'s, $($lifetime,)* 'f>(
                    &'s self,
                    $($argument: $type),*
                ) -> Pin<Box<dyn Future<Output = Result<$output>> + Send + 'f>>
                where
                    's: 'f,
                    $($lifetime: 'f,)*
                    Self: 'f,
                {
                    self.0.$name($($argument),*)
                })*
            }
        };
    };
}

pub(crate) use delegate;
