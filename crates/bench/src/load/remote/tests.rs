//! The protocol against workers that are scripts: what they say becomes what threads would have
//! seen, and whatever they do wrong ends the run with a failure that says so.

use super::*;
use crate::measure::stamp::Bodies;

fn results(json: &str) -> Result<Found, Failure> {
    let facts = WorkerFacts {
        api: String::new(),
        jvm: String::new(),
        heap_bytes: 0,
        provider: String::new(),
        jms: String::new(),
    };
    found(serde_json::from_str(json).unwrap(), facts)
}

#[test]
fn what_a_worker_saw_is_what_threads_would_have_seen() {
    // Numbers 1 to 6 sent and confirmed; 5 never came, 2 came twice, one body was damaged.
    let all = STANDARD.encode(0x7e_u64.to_le_bytes());
    let but_five = STANDARD.encode(0x5e_u64.to_le_bytes());
    let found = results(&format!(
        r#"{{"produced":[{{"sent":6,"refused":0,"confirmed":"{all}","unknown_confirms":1,"confirm":[[1000,5],[9000,1]],"lateness":[]}}],
            "consumed":[{{"queue":0,"seen":[{{"numbers":"{but_five}","duplicated":1,"reordered":2}}],"damages":[0,1,0],
            "redelivered":3,"total":[[2000,5]],"transit":[]}}],"held":4}}"#
    ))
    .unwrap();
    let (produced, consumed) = (&found.produced[0], &found.consumed[0]);
    assert_eq!((produced.sent, produced.confirmed.count(), produced.unknown_confirms), (6, 6, 1));
    assert_eq!(produced.confirmed.missing_from(&consumed.seen[0].numbers), 1);
    assert_eq!((consumed.seen[0].duplicated, consumed.seen[0].reordered, consumed.redelivered), (1, 2, 3));
    assert_eq!((consumed.damages.stamp, found.held), (1, Some(4)));
    let confirm = produced.confirm.summary().unwrap();
    assert_eq!((confirm.samples, confirm.p50.round(), consumed.total.summary().unwrap().samples), (6, 1.0, 5));
}

#[test]
fn numbers_that_are_no_words_are_refused() {
    for bad in ["AAAA", "?", "A"] {
        assert!(numbers(bad).is_err(), "{bad}");
    }
    assert_eq!(numbers("").unwrap().count(), 0);
}

/// A worker that is a script: it answers the greeting and the clock, then does as `script` says
/// with each line it reads.
#[cfg(target_os = "linux")]
fn scripted(script: &str) -> Result<Worker, Failure> {
    const GREETING: &str = r#"
        read -r line; echo '{"hello":{"v":1,"api":"jakarta","jvm":"17","pid":'$$',"heap":1}}'
        ask() { while read -r line; do case "$line" in
            *clock*) t=${line##*:}; t=${t%\}}; echo "{\"clock\":{\"t\":$t,\"nano\":$((t + 5000000))}}";;
            *) return 0;; esac; done; exit 0; }
        ask
    "#;
    let mut command = std::process::Command::new("bash");
    command.args(["-c", &format!("{GREETING}\n{script}")]);
    // How well clocks can be compared depends on the machine's load, which is nothing that a test
    // decides.
    Worker::over(command, u64::MAX)
}

#[cfg(target_os = "linux")]
fn spec() -> Spec {
    use crate::driver::jvm::provider::Provider;
    use bench_record::scenario::Scenario;
    let (target, scenario) = ("qpid-jms://h".parse().unwrap(), Scenario::default());
    let provider = Provider::of(&target, &scenario).unwrap().unwrap();
    Spec::new(&provider, &target, &scenario, 1).unwrap()
}

#[test]
#[cfg(target_os = "linux")]
fn a_load_is_steered_from_its_preparation_to_its_results() {
    let mut worker = scripted(
        r#"case "$line" in *prepare*amqp://h*) echo '{"ready":{"provider":"Script 1","jms":"3.1"}}';; *) exit 4;; esac
        ask; case "$line" in *start*) echo '{"stats":{"at":7000000,"sent":[5],"confirmed":4,"refused":0,"received":3,"moved":6000000,"done":false,"gc_ms":1}}';; *) exit 4;; esac
        ask; case "$line" in *steer*'"from":0'*'"gate":true,"drain":false'*) ;; *) exit 4;; esac
        ask; case "$line" in *sample*) echo '{"sample":{"at":9000000,"sent":[9],"confirmed":9,"refused":0,"received":9,"moved":8500000,"done":true,"gc_ms":2}}';; *) exit 4;; esac
        ask; case "$line" in *end*) echo '{"result":{"produced":[],"consumed":[],"held":9}}';; *) exit 4;; esac
        ask"#,
    )
    .unwrap();
    let run = Run::new(1, 0, 1, Bodies::new(1, 64));
    let mut remote = Remote::prepare(&mut worker, &spec(), &run).unwrap();
    remote.start().unwrap();
    let sample = remote.sample(&[]);
    assert_eq!((sample.totals.sent, sample.totals.received, sample.gc_ms), (9, 9, Some(2)));
    // The script's clock is 5 ms ahead; what is uncertain about that is less than is refused.
    assert!((4_000_000..=4_050_000).contains(&sample.at), "{}", sample.at);
    assert!(remote.have_sent() && sample.client.is_some());
    assert_eq!(run.totals(), sample.totals);
    assert_eq!(sample.at - run.moved_at(), 500_000);
    let found = remote.end().unwrap();
    assert_eq!((found.held, found.worker.provider.as_str()), (Some(9), "Script 1"));
}

#[test]
#[cfg(target_os = "linux")]
fn a_drain_keeps_what_its_fill_brought_in() {
    let mut worker = scripted(
        r#"echo '{"ready":{"provider":"p","jms":"2"}}'
        ask; echo '{"sample":{"at":9000000,"sent":[],"confirmed":0,"refused":0,"received":7,"moved":0,"done":true,"gc_ms":0}}'
        ask"#,
    )
    .unwrap();
    let run = Run::new(2, 0, 1, Bodies::new(1, 64));
    run.tallies[0].sent.store(9, Relaxed);
    run.tallies[0].confirmed.store(9, Relaxed);
    let mut remote = Remote::prepare(&mut worker, &spec().draining(), &run).unwrap();
    let totals = remote.sample(&[]).totals;
    assert_eq!((totals.sent, totals.confirmed, totals.received, run.expected()), (9, 9, 7, 9));
}

/// What the script does from the preparation on, and what the failure says.
#[cfg(target_os = "linux")]
type Case = (&'static str, &'static str);

#[test]
#[cfg(target_os = "linux")]
fn whatever_a_worker_does_wrong_is_said() {
    let cases: &[Case] = &[
        (
            r#"echo '{"lacks":"shared subscription"}'; ask"#,
            "not applicable, for lack of shared subscription in this broker's client",
        ),
        (r#"echo '{"failed":"Connection refused"}'; ask"#, "Connection refused"),
        (r#"echo '{"stats":1}'; ask"#, "an answer of the worker"),
        (r#"echo 'Exception in thread main' >&2; exit 7"#, "exit status: 7"),
        (r#"echo 'no such class: a.B' >&2; exit 1"#, "no such class: a.B"),
    ];
    let run = Run::new(1, 0, 1, Bodies::new(1, 64));
    for (script, part) in cases {
        let mut worker = scripted(script).unwrap();
        let failure = Remote::prepare(&mut worker, &spec(), &run).err().map(|failure| failure.to_string());
        assert!(failure.as_ref().is_some_and(|text| text.contains(part)), "{script}: {failure:?}");
    }
    assert_eq!(run.phase(), RunPhase::Run);
}

#[test]
#[cfg(target_os = "linux")]
fn a_worker_that_dies_ends_the_run() {
    let mut worker = scripted(r#"echo '{"ready":{"provider":"p","jms":"2"}}'; ask; exit 9"#).unwrap();
    let run = Run::new(1, 0, 1, Bodies::new(1, 64));
    let mut remote = Remote::prepare(&mut worker, &spec(), &run).unwrap();
    let _ = remote.start();
    remote.sample(&[]);
    assert_eq!(run.phase(), RunPhase::End);
    let failure = remote.end().err().map(|failure| failure.to_string()).unwrap_or_default();
    assert!(failure.contains("the JMS worker ended"), "{failure}");
}
