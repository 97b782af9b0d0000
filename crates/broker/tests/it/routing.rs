//! Where messages go: the default exchange, the four kinds, exchanges bound to exchanges.

use crate::check;

#[test]
fn the_default_exchange_leads_to_the_queue_that_the_key_names() {
    check(&[
        ("a queue q", "0 0"),
        ("a publish - q m1; publish - other m2; publish - q m3", ""),
        ("a get q no-ack", ":1=m1 left 1"),
        ("a get q no-ack", ":2=m3 left 0"),
        ("a get q no-ack", "empty"),
        ("a bind - k q", "403 operation not permitted on the default exchange"),
        ("a exchange - direct", "403 operation not permitted on the default exchange"),
        ("a delete-exchange -", "403 operation not permitted on the default exchange"),
        ("a passive-exchange -", ""),
    ]);
}

#[test]
fn each_kind_of_exchange_chooses_by_its_own_rule() {
    check(&[
        ("a queue d; queue f; queue t; queue h", "0 0, 0 0, 0 0, 0 0"),
        ("a exchange xd direct; exchange xf fanout; exchange xt topic; exchange xh headers", ""),
        ("a bind xd red d; bind xf - f; bind xt eu.*.# t; bind xh - h x-match=all colour=red n=1", ""),
        ("a publish xd red m1; publish xd blue m2", ""),
        ("a publish xf anything m3", ""),
        ("a publish xt eu.de m4; publish xt eu m5; publish xt eu.fr.paris m6; publish xt us.ny m7", ""),
        ("a publish xh - m8 colour=red n=1 z=2; publish xh - m9 colour=red; publish xh - m10 colour=red n=2", ""),
        ("a consume d d no-ack", "d:1=m1"),
        ("a consume f f no-ack", "f:2=m3"),
        ("a consume t t no-ack", "t:3=m4, t:4=m6"),
        ("a consume h h no-ack", "h:5=m8"),
    ]);
}

#[test]
fn a_queue_that_several_bindings_reach_gets_one_copy() {
    check(&[
        ("a queue q", "0 0"),
        ("a exchange x topic; bind x a.* q; bind x *.b q; bind x # q; bind x a.b q", ""),
        ("a publish x a.b m", ""),
        ("* counts q", "1 0"),
    ]);
}

#[test]
fn exchanges_lead_to_exchanges_and_circles_end() {
    check(&[
        ("a queue q; queue r", "0 0, 0 0"),
        ("a exchange x topic; exchange y fanout; exchange z direct", ""),
        ("a bind x # exchange:y; bind y - exchange:z; bind z k q; bind y - r; bind z k exchange:x", ""),
        ("a publish x k m", ""),
        ("* counts q", "1 0"),
        ("* counts r", "1 0"),
        ("a unbind y - exchange:z", ""),
        ("a publish x k m", ""),
        ("* counts q", "1 0"),
        ("* counts r", "2 0"),
        ("a bind x # exchange:none", "404 no exchange 'none' in vhost '/'"),
        ("a bind none # exchange:x", "404 no exchange 'none' in vhost '/'"),
    ]);
}

#[test]
fn routes_follow_changes_of_bindings_at_once() {
    check(&[
        ("a queue q; queue r", "0 0, 0 0"),
        ("a exchange x direct; bind x k q", ""),
        ("a publish x k m", ""),
        ("b bind x k r; unbind x k q", ""),
        ("a publish x k m", ""),
        ("* counts q", "1 0"),
        ("* counts r", "1 0"),
        ("b delete r", "1"),
        ("a publish x k m mandatory", "returned m"),
        ("b delete-exchange x", ""),
        ("a publish x k m", "404 no exchange 'x' in vhost '/'"),
    ]);
}

#[test]
fn an_unknown_or_internal_exchange_takes_nothing() {
    check(&[
        ("a publish none k m", "404 no exchange 'none' in vhost '/'"),
        ("a exchange x fanout internal; exchange y fanout; queue q; bind x - q; bind y - exchange:x", "0 0"),
        ("a publish x k m", "403 cannot publish to internal exchange 'x' in vhost '/'"),
        ("a publish y k m", ""),
        ("* counts q", "1 0"),
    ]);
}
