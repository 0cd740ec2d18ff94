use lockwright_conformance::register::Register;
use lockwright_conformance::workload::{RemoteStore, Store};
use lockwright_core::Fence;

#[test]
fn a_remote_store_is_the_one_that_is_served() {
    let (here, name) = (Register::default(), "a name, \"quoted\"");
    let address = here.serve().expect("a loopback port").to_string();
    let there = RemoteStore::connect(&address).expect("it is served");
    assert!(there.write(name, Fence::new(7)).expect("an answer"));
    assert!(!there.write(name, Fence::new(6)).expect("an answer"));
    assert!(there.write("another", Fence::new(6)).expect("an answer"));
    assert_eq!((here.writes_to(name).accepted, here.writes_to(name).refused), (1, 1));
    assert_eq!(there.pick().expect("an answer"), None);
    there.leave("{\"ticket\": 1}").expect("an answer");
    there.leave("second").expect("an answer");
    assert_eq!(there.pick().expect("an answer").as_deref(), Some("{\"ticket\": 1}"));
    assert_eq!(here.pick().as_deref(), Some("second"));
}
