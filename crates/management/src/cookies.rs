//! The cookie of a session: its name, how it is set, and how it is found in a request.
//!
//! Scripts can't read it, and pages of other sites don't send it.

use axum::http::{HeaderMap, header};

use crate::visit::Transport;

/// The prefix makes browsers refuse a cookie that another host, another path or an unencrypted page
/// has set; plain HTTP can't have it.
const OVER_TLS: &str = "__Host-hermod";
const PLAIN: &str = "hermod";

/// The name of the session's cookie.
pub(crate) fn name(transport: Transport) -> &'static str {
    match transport {
        Transport::Tls => OVER_TLS,
        Transport::Plain => PLAIN,
    }
}

/// Sets the cookie of a session for so many seconds.
pub(crate) fn set(transport: Transport, token: &str, seconds: u64) -> String {
    let secure = match transport {
        Transport::Tls => "; Secure",
        Transport::Plain => "",
    };
    format!("{}={token}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}", name(transport))
}

/// The name of the cookie of one who logs in elsewhere.
pub(crate) fn journey(transport: Transport) -> &'static str {
    match transport {
        Transport::Tls => "__Host-hermod-login",
        Transport::Plain => "hermod-login",
    }
}

/// Sets the cookie of one who logs in elsewhere. It comes back with a request that the page
/// elsewhere began.
pub(crate) fn set_journey(transport: Transport, state: &str, seconds: u64) -> String {
    let secure = match transport {
        Transport::Tls => "; Secure",
        Transport::Plain => "",
    };
    format!("{}={state}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}", journey(transport))
}

/// The value of a cookie.
pub(crate) fn find<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    all.flat_map(|value| value.split(';'))
        .find_map(|pair| pair.trim().split_once('=').filter(|(its, _)| *its == name).map(|(_, value)| value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cookie_of_a_session_is_the_browsers_alone() {
        for (transport, begins, is_secure) in
            [(Transport::Tls, "__Host-hermod=t; ", true), (Transport::Plain, "hermod=t; ", false)]
        {
            let cookie = set(transport, "t", 60);
            assert!(cookie.starts_with(begins), "{cookie}");
            assert!(cookie.contains("; Path=/; HttpOnly; SameSite=Strict; Max-Age=60"), "{cookie}");
            assert_eq!(cookie.ends_with("; Secure"), is_secure, "{cookie}");
        }
    }

    #[test]
    fn a_cookie_is_found_by_its_whole_name() {
        let mut headers = HeaderMap::new();
        assert_eq!(find(&headers, "hermod"), None);
        headers.append(header::COOKIE, "a=b; xhermod=1; hermod=two=2".parse().unwrap());
        headers.append(header::COOKIE, "theme=dark".parse().unwrap());
        assert_eq!(find(&headers, "hermod"), Some("two=2"));
        assert_eq!(find(&headers, "mod"), None);
        assert_eq!(find(&headers, "theme"), Some("dark"));
    }
}
