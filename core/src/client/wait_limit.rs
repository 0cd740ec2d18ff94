use crate::BootInstant;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    Once,
    At(BootInstant),
    None,
}

impl Limit {
    pub(crate) fn instant(self) -> BootInstant {
        match self {
            Self::At(instant) => instant,
            Self::Once | Self::None => BootInstant::FAR_FUTURE,
        }
    }
}
