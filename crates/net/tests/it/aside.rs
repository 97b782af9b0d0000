//! Connections that may wait for a program elsewhere: they have turns of their own, and all others
//! go on.

use super::*;

fn aside(threads: usize) -> Settings {
    Settings { aside_threads: threads, ..Settings::default() }
}

#[test]
fn a_connection_that_waits_loses_nothing_and_holds_up_no_other() {
    for threads in [1, 3] {
        let toy = Toy::default();
        let (net, address) = start(aside(threads), std::slice::from_ref(&toy));
        let mut waits = connect(address);
        waits.write_all(b"where\nwait\nwhere\necho before\nhang\necho after\n").unwrap();
        until("it hangs", || toy.saw("hangs") == 1);
        // What comes meanwhile is read later, in its order.
        waits.write_all(b"echo more\nflood 300000\n").unwrap();
        let mut other = connect(address);
        for _ in 0..100 {
            other.write_all(b"where\n").unwrap();
            expect(&mut other, b"false\n");
        }
        toy.resume.store(true, Ordering::SeqCst);
        expect(&mut waits, b"false\ntrue\nbefore\nafter\nmore\n");
        expect(&mut waits, &vec![b'x'; 300_000]);
        drop((waits, other));
        until("an empty registry", || net.registry().open() == 0);
        assert_eq!(toy.saw("Gone"), 2 + 1, "one that waits is closed where it may, and once more when it is dropped");
        assert_eq!(net.shutdown(HANG), 0);
    }
}

/// With one thread: the second waits in line, and its peer may go meanwhile.
#[test]
fn connections_in_line_end_as_others_do() {
    let toy = Toy::default();
    let (net, address) = start(aside(1), std::slice::from_ref(&toy));
    let mut hangs = connect(address);
    hangs.write_all(b"wait\nhang\n").unwrap();
    until("it hangs", || toy.saw("hangs") == 1);
    let mut in_line = connect(address);
    in_line.write_all(b"wait\necho x\ntick 1\n").unwrap();
    let mut leaves = connect(address);
    leaves.write_all(b"wait\necho x\n").unwrap();
    drop(leaves);
    toy.resume.store(true, Ordering::SeqCst);
    expect(&mut in_line, b"x\ntick\n");
    until("the one that left is gone", || net.registry().open() == 2);
    hangs.write_all(b"quit\n").unwrap();
    expect(&mut hangs, b"bye\n");
    assert_eq!(drain(&mut hangs), 0);
    in_line.write_all(b"panic\n").unwrap();
    drain(&mut in_line);
    until("an empty registry", || net.registry().open() == 0);
    // The thread outlives a panic of what it did.
    let mut next = connect(address);
    next.write_all(b"wait\necho next\n").unwrap();
    expect(&mut next, b"next\n");
}

#[test]
fn a_server_that_ends_cuts_off_what_hangs() {
    let toy = Toy { stubborn: true, ..Toy::default() };
    let (net, address) = start(aside(1), std::slice::from_ref(&toy));
    let mut hangs = connect(address);
    hangs.write_all(b"wait\nhang\n").unwrap();
    until("it hangs", || toy.saw("hangs") == 1);
    let resume = toy.resume.clone();
    let ends = std::thread::spawn(move || net.shutdown(Duration::from_millis(50)));
    assert_eq!(ends.join().unwrap(), 1);
    resume.store(true, Ordering::SeqCst);
    until("it is closed where it hung", || toy.saw("Gone") > 0);
}
