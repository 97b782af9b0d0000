//! Input that is read before the log-in, SASL responses, and the stored users of the data
//! directory.

use auth::sasl::{amqplain, plain, scram};
use auth::{Pattern, User};

/// The input as a response of each mechanism, as a stored user, and as a pattern with a name that
/// it is searched for in.
pub(super) fn login(input: &[u8]) {
    if let Ok(found) = plain::parse(input) {
        assert!(found.user.len() + found.password.len() < input.len());
        assert!(!found.password.contains(&0));
    }
    if let Ok(found) = amqplain::parse(input) {
        assert!(found.user.len() + found.password.len() < input.len());
    }
    if let Ok(first) = scram::First::parse(input) {
        assert!(!first.user().is_empty() && first.user().len() < input.len());
    }
    if let Ok(user) = User::decode(input) {
        let bytes = user.encode().expect("a stored user keeps the limits");
        assert_eq!(User::decode(&bytes).as_ref(), Ok(&user));
    }
    if let Ok(text) = str::from_utf8(input)
        && let Some((pattern, name)) = text.split_once('\n')
        && let Ok(pattern) = Pattern::new(pattern)
    {
        pattern.matches(name);
    }
}
