//! Valid and invalid files, changes while the server runs, and the users of certificates.

use std::time::{Duration, SystemTime};

use rustls::pki_types::pem::PemObject;
use testkit::certificates::{Issuer, Subject};

use super::*;
use crate::config::{LoginFrom, OF_ALL, Passwords};
use net::Tls as _;

/// A folder that other users can't look into, so that keys in it are closed.
fn closed_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    }
    folder
}

fn settings(folder: &Path) -> Tls {
    Tls {
        certificate: Some(folder.join("cert.pem")),
        key: Some(folder.join("key.pem")),
        others: Vec::new(),
        words: &OF_ALL,
        ca: None,
        passwords: Passwords::default(),
        verify: Verify::None,
        least: Version::V1_2,
        login_from: LoginFrom::CommonName,
        handshake_timeout: Duration::from_secs(5),
    }
}

/// The error at the start with these files of `data`, or `good`. OpenSSL 3.0 and Java 17 wrote
/// them.
fn with_passwords(certificate: &str, key: Option<&str>, ca: Option<&str>, password: &str) -> String {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tls/data");
    let mut settings = settings(&data);
    settings.certificate = Some(data.join(certificate));
    settings.key = key.map(|key| data.join(key));
    settings.passwords.key = password.to_owned();
    if let Some(ca) = ca {
        settings.ca = Some(data.join(ca));
        settings.passwords.ca = password.to_owned();
        settings.verify = Verify::Required;
    }
    match Certificates::load(&settings) {
        Ok(_) => "good".to_owned(),
        Err(failure) => failure.text.replace(&format!("{}/", data.display()), ""),
    }
}

#[test]
fn encrypted_keys_and_key_stores() {
    for (certificate, key, ca, password, expected) in [
        ("cert.pem", Some("encrypted.pem"), None, "secret", "good"),
        ("cert.pem", Some("encrypted.pem"), None, "other", "tls.key: encrypted.pem:1: the password is not that of"),
        ("cert.pem", Some("encrypted.pem"), None, "", "tls.key: encrypted.pem:1: the key is encrypted; set its"),
        ("cert.pem", Some("old.pem"), None, "secret", "tls.key: old.pem:2: the key is encrypted in OpenSSL's old way"),
        ("openssl.p12", None, None, "secret", "good"),
        ("legacy.p12", None, None, "secret", "good"),
        ("java.p12", None, None, "secret", "good"),
        ("java-ec.p12", None, None, "secret", "tls.certificate: java-ec.p12: the key has no public half"),
        ("java.p12", None, None, "other", "tls.certificate: java.p12: the password is not that of this key store"),
        ("java.p12", None, None, "", "tls.certificate: java.p12: the password is not that of this key store"),
        ("cert.pem", Some("openssl.p12"), None, "secret", "good"),
        ("java.p12", Some("encrypted.pem"), None, "secret", "tls.key: encrypted.pem: the key does not belong"),
        ("openssl.p12", None, Some("trust.p12"), "secret", "good"),
        ("trust.p12", None, None, "secret", "tls.certificate: trust.p12: there is no private key in it"),
        (
            "java.jks",
            None,
            None,
            "secret",
            "tls.certificate: java.jks: it is a key store of Java's own format; convert",
        ),
    ] {
        let told = with_passwords(certificate, key, ca, password);
        assert!(told.starts_with(expected), "{certificate} {key:?} {password}: {told}");
        assert!(!told.contains("secret"), "{told}");
    }
}

#[test]
fn a_password_from_a_file_and_stores_that_are_cut_off() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tls/data");
    let folder = closed_folder();
    let path = folder.path().join("password");
    std::fs::write(&path, "secret\n").unwrap();
    let mut settings = settings(&data);
    (settings.certificate, settings.key) = (Some(data.join("java.p12")), None);
    settings.passwords.key_file = Some(path.clone());
    assert!(Certificates::load(&settings).is_ok());
    std::fs::remove_file(&path).unwrap();
    let missing = Certificates::load(&settings).err().unwrap().text;
    assert!(missing.starts_with("tls.key_password_file: ") && missing.contains("cannot be read"), "{missing}");
    // A store of more than 64 KiB writes its length in three bytes.
    assert!(store::is_store(&[0x30, 0x83, 1, 0, 0]) && !store::is_store(b"0123") && !store::is_store(b"---"));
    let whole = std::fs::read(data.join("openssl.p12")).unwrap();
    for end in (4..whole.len()).step_by(7) {
        assert!(store::key(&whole[..end], "secret").is_err(), "{end} bytes");
    }
}

/// The error at the start with these files; `good` stands for files that fit together.
fn refusal(certificate: &str, key: &str, ca: Option<&str>) -> String {
    let folder = closed_folder();
    let mut settings = settings(folder.path());
    std::fs::write(folder.path().join("cert.pem"), certificate).unwrap();
    std::fs::write(folder.path().join("key.pem"), key).unwrap();
    if let Some(ca) = ca {
        std::fs::write(folder.path().join("ca.pem"), ca).unwrap();
        settings.ca = Some(folder.path().join("ca.pem"));
        settings.verify = Verify::Required;
    }
    match Certificates::load(&settings) {
        Ok(_) => "good".to_owned(),
        Err(failure) => failure.text.replace(&format!("{}/", folder.path().display()), ""),
    }
}

#[test]
fn files_that_cannot_be_used_are_named_with_line_and_remedy() {
    let issuer = Issuer::new("tests");
    let (one, other, ca) = (issuer.server(), issuer.server(), issuer.pem());
    let cut: String = ca.lines().take(3).map(|line| format!("{line}\n")).collect();
    let noise = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let second_line = 1 + one.certificate.lines().count();
    for (certificate, key, ca, expected) in [
        (one.certificate.clone(), one.key.clone(), Some(ca.as_str()), "good".to_owned()),
        (format!("{}{ca}", one.certificate), one.key.clone(), None, "good".to_owned()),
        (one.certificate.clone(), other.key.clone(), None, "tls.key: key.pem: the key does not belong".to_owned()),
        (String::new(), one.key.clone(), None, "tls.certificate: cert.pem: there is no certificate in it".to_owned()),
        (one.key.clone(), one.key.clone(), None, "tls.certificate: cert.pem: there is no certificate in it".to_owned()),
        (one.certificate.clone(), ca.clone(), None, "tls.key: key.pem: there is no private key in it".to_owned()),
        (
            one.certificate.clone(),
            format!("# ours\n{}{}", one.key, other.key),
            None,
            format!("tls.key: key.pem:{}: this is another private key", 2 + one.key.lines().count()),
        ),
        (
            one.certificate.clone(),
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n".to_owned(),
            None,
            "tls.key: key.pem:1: the key is encrypted; set its password with tls.key_password_file or HERMOD"
                .to_owned(),
        ),
        (
            format!("{}{cut}", one.certificate),
            one.key.clone(),
            None,
            format!("tls.certificate: cert.pem:{second_line}: the section that begins here has no end"),
        ),
        (
            format!("{}{noise}", one.certificate),
            one.key.clone(),
            None,
            format!("tls.certificate: cert.pem:{second_line}: this is no certificate"),
        ),
        (
            one.certificate.replace("MII", "M*I"),
            one.key.clone(),
            None,
            "tls.certificate: cert.pem:1: what is in the section that begins here is not base64".to_owned(),
        ),
        (one.certificate.clone(), one.key.clone(), Some(""), "tls.ca: ca.pem: there is no certificate".to_owned()),
    ] {
        let refusal = refusal(&certificate, &key, ca);
        assert!(refusal.starts_with(&expected), "{refusal}\n{expected}");
    }
    let folder = closed_folder();
    let missing = Certificates::load(&settings(folder.path())).map(|_| ()).unwrap_err().text;
    assert!(missing.contains("cert.pem: it cannot be read: No such file"), "{missing}");
}

#[test]
fn a_changed_file_is_read_at_the_next_handshake_and_a_bad_one_changes_nothing() {
    let folder = closed_folder();
    let settings = settings(folder.path());
    let issuer = Issuer::new("tests");
    let mut written = SystemTime::now() - Duration::from_secs(60);
    let mut write = |certificate: &str, key: &str| {
        // The change must not be hidden by a file system whose times are coarse.
        written += Duration::from_secs(2);
        for (name, text) in [("cert.pem", certificate), ("key.pem", key)] {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::File::options().write(true).open(path).unwrap().set_modified(written).unwrap();
        }
    };
    let (first, second) = (issuer.server(), issuer.server());
    write(&first.certificate, &first.key);
    let certificates = Certificates::load(&settings).unwrap().unwrap();
    let before = certificates.config();
    assert!(Arc::ptr_eq(&before, &certificates.config()), "what has not changed is not read again");
    // Half of a change: the new certificate with the old key.
    write(&second.certificate, &first.key);
    assert!(Arc::ptr_eq(&before, &certificates.config()));
    write(&second.certificate, &second.key);
    let after = certificates.config();
    assert!(!Arc::ptr_eq(&before, &after));
    certificates.reload();
    assert!(
        !Arc::ptr_eq(&after, &certificates.config()),
        "an order to read again is obeyed whatever the files look like"
    );
}

#[test]
fn an_end_that_is_near_or_over_is_told() {
    let issuer = Issuer::new("tests");
    let der = |pem: String| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let expired = der(issuer.client(Subject { expired: true, ..Subject::default() }).certificate);
    let (now, day) = (SystemTime::now(), Duration::from_secs(24 * 3600));
    // It was valid from 1975 to the end of 2000.
    let end = SystemTime::UNIX_EPOCH + Duration::from_secs(978_307_200);
    for (certificate, at, expected) in [
        (&der(issuer.server().certificate), now, None),
        (&expired, now, Some("the certificate has ended on 2001-01-01T00:00:00Z")),
        (&expired, end - 13 * day, Some("the certificate ends on 2001-01-01T00:00:00Z")),
        (&expired, end - 15 * day, None),
        (&expired, SystemTime::UNIX_EPOCH, Some("the certificate begins on 1975-01-01T00:00:00Z only")),
    ] {
        let told = names::expiry(certificate, at);
        assert_eq!(told.as_deref().map(|told| &told[..expected.map_or(0, str::len)]), expected, "{told:?}");
    }
}

#[test]
fn a_certificate_names_its_user_where_the_setting_says() {
    let issuer = Issuer::new("tests");
    let client = |name, alternatives| {
        let issued = issuer.client(Subject { name, alternatives, ..Subject::default() });
        CertificateDer::from_pem_slice(issued.certificate.as_bytes()).unwrap()
    };
    let full = client(
        &[("O", "Example, Inc."), ("CN", "shop")],
        &[
            ("URI", "spiffe://example/shop"),
            ("DNS", "shop.example"),
            ("DNS", "other.example"),
            ("email", "shop@example.org"),
        ],
    );
    let bare = client(&[("O", "Example")], &[]);
    for (certificate, from, expected) in [
        (&full, LoginFrom::DistinguishedName, Some("CN=shop,O=Example\\, Inc.")),
        (&full, LoginFrom::CommonName, Some("shop")),
        (&full, LoginFrom::SanDns, Some("shop.example")),
        (&full, LoginFrom::SanEmail, Some("shop@example.org")),
        (&full, LoginFrom::SanUri, Some("spiffe://example/shop")),
        (&bare, LoginFrom::DistinguishedName, Some("O=Example")),
        (&bare, LoginFrom::CommonName, None),
        (&bare, LoginFrom::SanDns, None),
        (&client(&[], &[]), LoginFrom::DistinguishedName, None),
        (&CertificateDer::from(vec![0x30, 0]), LoginFrom::CommonName, None),
    ] {
        assert_eq!(names::user(certificate, from).as_deref(), expected, "{from:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_key_that_every_user_can_read_is_refused_unless_it_is_closed_off_or_encrypted() {
    use std::os::unix::fs::PermissionsExt;

    let folder = closed_folder();
    let mode = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    let issued = Issuer::new("tests").server();
    std::fs::write(folder.path().join("cert.pem"), &issued.certificate).unwrap();
    std::fs::write(folder.path().join("key.pem"), &issued.key).unwrap();
    let settings = settings(folder.path());
    let key = folder.path().join("key.pem");
    for (of_folder, of_key, is_refused) in [
        (0o755, 0o644, true),
        (0o755, 0o604, true),
        (0o755, 0o640, false),
        (0o755, 0o600, false),
        (0o700, 0o644, false),
    ] {
        mode(folder.path(), of_folder);
        mode(&key, of_key);
        let told = Certificates::load(&settings).err().map(|failure| failure.text);
        assert_eq!(told.is_some(), is_refused, "{of_folder:o} {of_key:o} {told:?}");
        if let Some(told) = told {
            let remedy =
                format!("every user of this machine can read the key; close it with `chmod o-r {}`", key.display());
            assert!(told.starts_with("tls.key: ") && told.ends_with(&remedy), "{told}");
        }
    }
    // As Kubernetes mounts a secret: the file is a link into a folder that is a link.
    mode(folder.path(), 0o755);
    let data = folder.path().join("..2026");
    std::fs::create_dir(&data).unwrap();
    mode(&data, 0o755);
    mode(&key, 0o644);
    std::fs::rename(&key, data.join("key.pem")).unwrap();
    std::os::unix::fs::symlink("..2026", folder.path().join("..data")).unwrap();
    std::os::unix::fs::symlink("..data/key.pem", &key).unwrap();
    assert!(Certificates::load(&settings).is_ok());
    // A link elsewhere is no mount.
    std::fs::remove_file(&key).unwrap();
    std::os::unix::fs::symlink("..2026/key.pem", &key).unwrap();
    assert!(Certificates::load(&settings).is_err());
}
