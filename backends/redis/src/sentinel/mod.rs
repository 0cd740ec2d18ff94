pub(crate) mod doctor;
pub(crate) mod master;
pub(crate) mod switch_master;
