use std::fs;

use crate::harness::Sandbox;

#[test]
fn bash_completes_subcommands() {
    let sandbox = Sandbox::new();
    let script = "eval \"$(\"$0\" completions bash)\"; COMP_WORDS=(lockwright sho); COMP_CWORD=1; \
                  _lockwright lockwright sho lockwright; echo \"${COMPREPLY[@]}\"";
    let mut bash = sandbox.command("bash");
    bash.args(["-c", script, crate::harness::program()]);
    assert_eq!(sandbox.finish(&mut bash).stdout(), "show\n");
}

#[test]
fn each_shell_has_a_script() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        sandbox.output(["completions", shell]).exits(0).prints("conformance");
    }
    sandbox.output(["completions", "csh"]).exits(64).says("possible values");
}

#[test]
fn each_subcommand_has_a_man_page() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("man1")).unwrap();
    sandbox.output(["man", "man1"]).exits(0);
    let printed = sandbox.output(["man"]).exits(0).stdout();
    let read = |name| fs::read_to_string(sandbox.path("man1").join(name)).unwrap();
    for (name, text) in [("lockwright", "lockwright\\-run(1)"), ("lockwright-run", "128+N")] {
        let page = read(format!("{name}.1"));
        assert!(page.contains(text), "{page}");
        assert!(printed.contains(&page), "{printed}");
    }
    assert!(!sandbox.path("man1").join("lockwright-man.1").exists());
    sandbox.output(["man", "missing"]).exits(71).says("cannot write the man pages to missing");
}
