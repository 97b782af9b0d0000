//! Key stores of Java as certificates. Hermod reads PKCS#12; a JKS store is converted by `keytool`,
//! and the report has the line.

use crate::outcome::Outcome;

/// What a listener over TLS has.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Stores {
    pub(crate) line: usize,
    pub(crate) key: Option<String>,
    pub(crate) key_password: Option<String>,
    pub(crate) trust: Option<String>,
    pub(crate) trust_password: Option<String>,
    /// Whether they are said to be PKCS#12.
    pub(crate) pkcs12: bool,
    /// `none`, `peer` or `required`.
    pub(crate) verify: Option<&'static str>,
}

/// A path in the directory of configurations, which is that of the file.
fn beside_file(path: &str, directory: &str) -> String {
    const OF_FILE: [&str; 6] = [
        "${activemq.conf}/",
        "${activemq.base}/conf/",
        "${activemq.home}/conf/",
        "${artemis.instance}/etc/",
        "${artemis.instance.etc}/",
        "${data.dir}/../etc/",
    ];
    let inside = OF_FILE.iter().find_map(|start| path.strip_prefix(start));
    inside.map_or_else(|| path.to_owned(), |inside| format!("{directory}{inside}"))
}

/// Makes the settings of them.
pub(crate) fn convert(stores: &Stores, outcome: &mut Outcome<'_>) {
    let files = [
        (&stores.key, &stores.key_password, "the key store", "tls.certificate", "tls.key_password"),
        (&stores.trust, &stores.trust_password, "the trust store", "tls.ca", "tls.ca_password"),
    ];
    for (path, password, name, setting, secret) in files {
        let Some(path) = path else { continue };
        if setting == "tls.ca" && (stores.verify == Some("none") || outcome.setting("tls.certificate").is_none()) {
            outcome.needless(stores.line, name, "clients are not asked for certificates");
            continue;
        }
        let path = beside_file(path.strip_prefix("file:").unwrap_or(path), outcome.directory());
        let path = path.as_str();
        if path.contains("${") || path.contains("#{") || path.starts_with("classpath:") {
            outcome.left_out(
                stores.line,
                name,
                format!("its path is not known here; write it as {setting}, in PKCS#12"),
            );
            // What is asked for must not be open without it.
            continue;
        }
        let lower = path.to_ascii_lowercase();
        let is_pkcs12 = stores.pkcs12 || [".p12", ".pfx", ".pkcs12"].iter().any(|end| lower.ends_with(end));
        let pem = [".pem", ".crt", ".cer"].iter().any(|end| lower.ends_with(end));
        if is_pkcs12 || pem {
            outcome.set(stores.line, name, setting, path);
        } else {
            let base = path.rsplit_once('.').map_or(path, |(base, end)| if end.contains('/') { path } else { base });
            outcome.set(stores.line, name, setting, format!("{base}.p12"));
            outcome.warn(format!(
                "{name} is of Java's own kind; before the start run: keytool -importkeystore -srckeystore {path} \
                 -destkeystore {base}.p12 -deststoretype pkcs12"
            ));
        }
        match password {
            Some(password) if password.starts_with("ENC(") => {
                outcome.left_out(
                    stores.line,
                    &format!("the password of {name}"),
                    format!("it is masked; write it as {secret}"),
                );
            }
            Some(password) if password.contains("${") => {
                outcome.left_out(
                    stores.line,
                    &format!("the password of {name}"),
                    format!("it is a variable; write it as {secret}"),
                );
            }
            Some(password) => outcome.put(secret, password.clone()),
            None => {}
        }
    }
    if let Some(verify) = stores.verify.filter(|_| outcome.setting("tls.certificate").is_some()) {
        outcome.set(stores.line, "client certificates", "tls.verify", verify);
    }
}
