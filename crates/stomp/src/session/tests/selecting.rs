//! SUBSCRIBE with a selector or as a browser.

use super::check;

#[test]
fn a_selector_takes_headers_for_numbers_where_it_compares_them_with_one() {
    check(&[
        ("SUBSCRIBE\nid:s\ndestination:/queue/a\nselector:weight > 2 AND color = 'red'\n\n\0", &[]),
        (
            "SEND\ndestination:/queue/a\nweight:3\ncolor:red\n\n1\0SEND\ndestination:/queue/a\nweight:3\ncolor:blue\n\n2\0\
             SEND\ndestination:/queue/a\nweight:10\ncolor:red\n\n3\0",
            &[
                "MESSAGE\nsubscription:s\nmessage-id:S-0-1\ndestination:/queue/a\nredelivered:false\nweight:3\ncolor:red\n\n1",
                "MESSAGE\nsubscription:s\nmessage-id:S-0-2\ndestination:/queue/a\nredelivered:false\nweight:10\ncolor:red\n\n3",
            ],
        ),
        (
            "SUBSCRIBE\nid:t\ndestination:/queue/a\n\n\0",
            &[
                "MESSAGE\nsubscription:t\nmessage-id:S-1-3\ndestination:/queue/a\nredelivered:false\nweight:3\ncolor:blue\n\n2",
            ],
        ),
    ]);
}

#[test]
fn a_browser_is_told_when_it_has_seen_everything() {
    let seen = |number: u32, tag: u32| {
        format!(
            "MESSAGE\nsubscription:b\nmessage-id:S-{number}-{tag}\ndestination:/queue/a\nredelivered:false\nn:{tag}\n\nx"
        )
    };
    let end = "MESSAGE\nsubscription:b\nmessage-id:0\ndestination:/queue/a\nbrowser:end";
    let send = |n: u32| format!("SEND\ndestination:/queue/a\nn:{n}\n\nx\0");
    check(&[
        (&format!("{}{}{}", send(1), send(2), send(3)), &[]),
        (
            "SUBSCRIBE\nid:b\ndestination:/queue/a\nbrowser:true\nack:auto\n\n\0",
            &[&seen(0, 1), &seen(0, 2), &seen(0, 3), end],
        ),
        // The client must still end the subscription.
        ("UNSUBSCRIBE\nid:b\nreceipt:1\n\n\0", &["RECEIPT\nreceipt-id:1"]),
        ("SUBSCRIBE\nid:b\ndestination:/amq/queue/a\nbrowser:true\nselector:n > 3\n\n\0", &[end]),
    ]);
}

#[test]
fn a_browser_or_selector_that_makes_no_sense_is_refused() {
    for (headers, destination, message, detail) in [
        ("selector:weight >", "/queue/a", "precondition_failed", "invalid selector at character"),
        ("browser:true\nack:client", "/queue/a", "Invalid header", "a browser, which settles nothing"),
        ("browser:yes", "/queue/a", "Invalid header", "true or false"),
        ("browser:true", "/topic/a", "Invalid destination", "a browser sees what waits in a queue"),
    ] {
        let mut peer = super::Scene::new().connect("1.2");
        peer.say(&format!("SUBSCRIBE\nid:b\ndestination:{destination}\n{headers}\n\n\0"));
        let heard = peer.heard();
        assert!(heard.len() == 1 && heard[0].starts_with(&format!("ERROR\nmessage:{message}\n")), "{heard:?}");
        assert!(heard[0].contains(detail), "{heard:?}");
    }
}
