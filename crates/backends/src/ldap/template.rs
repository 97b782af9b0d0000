//! Names and filters of a directory with places for what a client gives.
//!
//! Invariant: what is put in is escaped for where it stands, so it can't end its place.

use std::fmt;

/// The place of the name that a client gives.
const USER: &str = "${username}";
/// The place of the distinguished name of its entry; in filters.
const DN: &str = "${user_dn}";

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(String);

/// Why a text is no template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplateError {
    /// There is no place in it: all users would be one.
    NoPlace,
    /// A name does not begin with an attribute whose value is the user's name.
    NotFirst,
    /// The parentheses of a filter do not fit.
    Parentheses,
    /// It has a place that is not known.
    Unknown(String),
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPlace => write!(f, "it has no {USER}, so all users would be the same"),
            Self::NotFirst => {
                write!(f, "it must begin with an attribute that is the user's name, as in uid={USER},ou=people")
            }
            Self::Parentheses => write!(f, "its parentheses do not fit; write it as (member={DN})"),
            Self::Unknown(place) => write!(f, "'{place}' is not known; there are {USER} and, in filters, {DN}"),
        }
    }
}

impl std::error::Error for TemplateError {}

impl Template {
    /// The distinguished name of a user's entry.
    ///
    /// # Errors
    /// If the user's name is not the value of its first attribute.
    pub fn of_name(text: &str) -> Result<Self, TemplateError> {
        check_places(text, &[USER])?;
        if !text.contains(USER) {
            return Err(TemplateError::NoPlace);
        }
        let after = text.split_once('=').map_or("", |(_, value)| value);
        let rest = after.strip_prefix(USER).ok_or(TemplateError::NotFirst)?;
        if rest.is_empty() || rest.starts_with(',') { Ok(Self(text.to_owned())) } else { Err(TemplateError::NotFirst) }
    }

    /// A filter of groups.
    ///
    /// # Errors
    /// If it is none, or finds the same groups for all users.
    pub fn of_filter(text: &str) -> Result<Self, TemplateError> {
        check_places(text, &[USER, DN])?;
        if !text.contains(USER) && !text.contains(DN) {
            return Err(TemplateError::NoPlace);
        }
        let mut depth = 0_i32;
        for letter in text.chars() {
            depth += i32::from(letter == '(') - i32::from(letter == ')');
            if depth < 0 {
                return Err(TemplateError::Parentheses);
            }
        }
        let fits = depth == 0 && text.starts_with('(') && text.ends_with(')');
        if fits { Ok(Self(text.to_owned())) } else { Err(TemplateError::Parentheses) }
    }

    /// The attribute that is the user's name.
    pub(super) fn attribute(&self) -> &str {
        self.0.split_once('=').map_or("", |(attribute, _)| attribute.trim())
    }

    /// The distinguished name of this user's entry.
    pub(super) fn name(&self, user: &str) -> String {
        self.0.replace(USER, &ldap3::dn_escape(user))
    }

    /// The filter for this user.
    pub(super) fn filter(&self, user: &str, dn: &str) -> String {
        // Part by part: what was put in has no places.
        let with_dn = |text: &str| text.replace(DN, &ldap3::ldap_escape(dn));
        let parts: Vec<_> = self.0.split(USER).map(with_dn).collect();
        parts.join(&ldap3::ldap_escape(user))
    }
}

fn check_places(text: &str, known: &[&str]) -> Result<(), TemplateError> {
    for (at, _) in text.match_indices('$') {
        let rest = &text[at..];
        if !known.iter().any(|place| rest.starts_with(place)) {
            let end = rest.find('}').map_or(rest.len(), |end| end + 1);
            return Err(TemplateError::Unknown(rest[..end].to_owned()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_begins_with_the_user_and_can_not_be_left() {
        let template = Template::of_name("uid=${username},ou=people,dc=example").unwrap();
        assert_eq!(template.attribute(), "uid");
        for (user, expected) in [
            ("ada", "uid=ada,ou=people,dc=example"),
            ("a,ou=admin", "uid=a\\2cou\\3dadmin,ou=people,dc=example"),
            ("a+cn=root", "uid=a\\2bcn\\3droot,ou=people,dc=example"),
            ("a\\", "uid=a\\5c,ou=people,dc=example"),
            (" ada ", "uid=\\20ada\\20,ou=people,dc=example"),
            ("#ada", "uid=\\23ada,ou=people,dc=example"),
            ("${username}", "uid=${username},ou=people,dc=example"),
        ] {
            assert_eq!(template.name(user), expected);
        }
        for (text, expected) in [
            ("uid=ada,ou=people", "no ${username}"),
            ("${username}@example", "must begin with an attribute"),
            ("ou=people,uid=${username}", "must begin with an attribute"),
            ("uid=${username}x,ou=people", "must begin with an attribute"),
            ("uid=${user},ou=people", "'${user}' is not known"),
            ("uid=${username},o=${vhost", "'${vhost' is not known"),
        ] {
            assert!(Template::of_name(text).unwrap_err().to_string().contains(expected), "{text}");
        }
    }

    #[test]
    fn a_filter_can_not_be_left() {
        let template = Template::of_filter("(|(member=${user_dn})(memberUid=${username}))").unwrap();
        for (user, dn, expected) in [
            ("ada", "uid=ada,o=x", "(|(member=uid=ada,o=x)(memberUid=ada))"),
            ("*", "uid=\\2a", "(|(member=uid=\\5c2a)(memberUid=\\2a))"),
            ("a)(uid=*", "o=(x)", "(|(member=o=\\28x\\29)(memberUid=a\\29\\28uid=\\2a))"),
            ("${user_dn}", "o=x", "(|(member=o=x)(memberUid=${user_dn}))"),
            ("a", "uid=${username}", "(|(member=uid=${username})(memberUid=a))"),
        ] {
            assert_eq!(template.filter(user, dn), expected);
        }
        for (text, expected) in [
            ("(member=ada)", "no ${username}"),
            ("member=${user_dn}", "parentheses"),
            ("(member=${user_dn}", "parentheses"),
            (")(member=${user_dn})(", "parentheses"),
            ("(member=${dn})", "'${dn}' is not known"),
        ] {
            assert!(Template::of_filter(text).unwrap_err().to_string().contains(expected), "{text}");
        }
    }
}
