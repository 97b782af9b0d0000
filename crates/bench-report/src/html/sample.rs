//! Records as a run would leave them, with values of a seed: all kinds of rows, targets, outcomes
//! and figures. Tests read them, and a change of the page is looked at with them.

use std::collections::BTreeMap;

use serde_json::json;

use bench_record::durability::Durability;
use bench_record::latency::Summary;
use bench_record::machine::{Forced, MachineFacts};
use bench_record::scenario::{QueueKind, Scenario};
use bench_record::slice::{Measured, SliceRecord};
use bench_record::statistics::random::Random;
use bench_record::statistics::spread::Spread;
use bench_record::suite::{
    Audited, Cell, CellOutcome, CellResult, Claim, ClaimVerdict, Extent, Figure, FigureKind, Figures, Metric, Profile,
    Published, Report, Role, SuiteRecord, TargetFacts, VERSION,
};

/// How much faster than the first each target is, on average, and how much it varies.
const SPEEDS: [(f64, f64); 6] = [(1.0, 0.02), (1.0, 0.02), (0.62, 0.03), (0.35, 0.08), (0.95, 0.06), (2.6, 0.01)];

/// A run of five studies on four brokers, a control and a relay, as large as a real one.
pub(crate) fn large() -> Report {
    let mut draw = Draw { random: Random::new(7), blocks: 5 };
    let suites = vec![draw.dynabyte(), draw.crimson(), draw.osu(), draw.kth(), draw.mostlyuseless()];
    Report { suites, ..frame(5) }
}

/// One study with one row on two targets, in few blocks and interrupted.
pub(crate) fn small() -> Report {
    let mut draw = Draw { random: Random::new(3), blocks: 2 };
    let mut report = Report { finished: None, ..frame(2) };
    report.targets.truncate(3);
    report.targets.remove(1);
    let row = Row {
        id: "D1",
        title: "Publish, empty, one at a time",
        metric: Metric::MessagesPerSecond,
        level: 4100.0,
        load: publish(0, 1),
    };
    let mut cell =
        draw.cell(&row, Profile::Fair, &[], vec![published("RabbitMQ 3.7", 910.91, Some((270.78, 1183.43)))]);
    cell.results.truncate(3);
    cell.results.remove(1);
    let figures = vec![figure("Mean rates of publishing", FigureKind::Bars, &["D1"], None)];
    let claims =
        vec![claim(ClaimVerdict::Undecided, "TIBCO EMS is faster than Apollo <when> publishing & \"waiting\".")];
    report.suites = vec![suite("dynabyte2018", "The fastest message platform", vec![cell], figures, claims)];
    report
}

fn frame(blocks: usize) -> Report {
    let forced = (0..blocks).map(|block| {
        let latency = summary(180.0 + block as f64);
        Forced { per_second: 5400.0, cpu_us: Some(21.0), flushes_each: Some(1.0), latency }
    });
    Report {
        version: VERSION,
        program: "hermod-bench 0.1.0".to_owned(),
        started: 1_795_287_905,
        finished: Some(1_795_287_905 + 4_122),
        command: [
            "hermod-bench",
            "suite",
            "dynabyte2018",
            "--target",
            "hermod",
            "--target",
            "rabbitmq",
            "--blocks",
            "5",
        ]
        .map(str::to_owned)
        .to_vec(),
        machine: MachineFacts {
            cores: 2,
            os: "linux".to_owned(),
            kernel: Some("6.18.5".to_owned()),
            processor: Some("AMD EPYC 9R14".to_owned()),
            network: None,
        },
        extent: Extent { scale: 0.01, blocks, seed: 81_233_127, budget_s: 3900.0, frozen: true },
        targets: targets(),
        forced: forced.collect(),
        suites: Vec::new(),
    }
}

fn targets() -> Vec<TargetFacts> {
    let one = |uri: &str, role, product: Option<(&str, &str)>, declared, start_s: f64, idle: u64| TargetFacts {
        target: uri.parse().unwrap(),
        role,
        product: product.map(|(name, _)| name.to_owned()),
        version: product.map(|(_, version)| version.to_owned()),
        declared,
        audited: None,
        start_s: (start_s > 0.0).then_some(start_s),
        idle_bytes: (idle > 0).then_some(idle << 20),
    };
    use Durability::{D2, D3};
    let mut all = vec![
        one("hermod=amqp://127.0.0.1:5700,pid=11", Role::Broker, Some(("Hermod", "0.1.0")), Some(D3), 0.04, 7),
        one("hermod-again=amqp://127.0.0.1:5700,pid=11", Role::Control, Some(("Hermod", "0.1.0")), Some(D3), 0.0, 0),
        one(
            "rabbitmq=amqp://127.0.0.1:5701,pid=12,type=quorum",
            Role::Broker,
            Some(("RabbitMQ", "4.1.4")),
            Some(D3),
            4.8,
            148,
        ),
        one("artemis=amqp://127.0.0.1:5702,pid=13", Role::Broker, Some(("Artemis", "2.42.0")), Some(D3), 6.2, 610),
        one("classic=amqp://127.0.0.1:5703,pid=14", Role::Broker, Some(("RabbitMQ", "4.1.4")), Some(D2), 4.7, 141),
        one("relay=relay://127.0.0.1:5704", Role::Limit, None, None, 0.0, 0),
    ];
    let audited = |supports, evidence: &str| Some(Audited { supports, evidence: evidence.to_owned() });
    all[0].audited =
        audited(D3, "one flush for every 38 confirms in windows of 1000, all confirmed ids came back after kill -9");
    all[3].audited = audited(D2, "the disks counted no flush for 41 022 confirms");
    all
}

fn summary(p50: f64) -> Summary {
    Summary {
        samples: 4000,
        mean: p50 * 1.1,
        min: p50 * 0.7,
        p50,
        p90: p50 * 1.5,
        p99: p50 * 3.0,
        p999: p50 * 9.0,
        max: p50 * 20.0,
    }
}

fn publish(size: usize, window: u64) -> Scenario {
    Scenario::default().with(|s| {
        (s.message.size, s.message.persistent) = (size, true);
        s.clients.window = window;
        (s.topology.consumers, s.topology.queue) = (0, QueueKind::Durable);
    })
}

fn published(platform: &str, value: f64, range: Option<(f64, f64)>) -> Published {
    let (low, high) = range.unzip();
    Published { platform: platform.to_owned(), value, low, high, note: None }
}

fn figure(title: &str, kind: FigureKind, rows: &[&str], across: Option<&str>) -> Figure {
    let (rows, across) = (rows.iter().map(|row| (*row).to_owned()).collect(), across.map(str::to_owned));
    Figure { title: title.to_owned(), kind, rows, across, metric: None, log_x: true, log_y: false }
}

fn claim(verdict: ClaimVerdict, text: &str) -> Claim {
    Claim {
        text: text.to_owned(),
        verdict,
        why: "hermod 4 102 [4 011–4 190], rabbitmq 2 511 [2 400–2 610].".to_owned(),
    }
}

fn suite(id: &str, title: &str, cells: Vec<Cell>, figures: Vec<Figure>, claims: Vec<Claim>) -> SuiteRecord {
    let faults = [
        "Products promise different durability, so that the ranking compares a page cache with a disk.",
        "Maxima are quantised by a clock of one millisecond.",
    ];
    SuiteRecord {
        id: id.to_owned(),
        title: title.to_owned(),
        gist: "Five brokers were filled and drained by four clients at once, with empty and with large messages. Publishing \
               waited for each confirm or let a thousand be under way. The author found persistence to be the bottleneck."
            .to_owned(),
        citation: format!("{title}. An author, a year, a place."),
        environment: "Each broker in a container, clients on the same host; hardware not stated.".to_owned(),
        faults: faults.map(str::to_owned).to_vec(),
        cells,
        figures,
        claims,
    }
}

/// A row and the level of its figure on the first target.
struct Row {
    id: &'static str,
    title: &'static str,
    metric: Metric,
    level: f64,
    load: Scenario,
}

/// Values with noise, from a seed.
struct Draw {
    random: Random,
    blocks: usize,
}

impl Draw {
    /// About 1, by a normal variable's worth of noise.
    fn noise(&mut self, spread: f64) -> f64 {
        let sum: f64 = (0..12).map(|_| self.random.unit()).sum();
        ((sum - 6.0) * spread).exp()
    }

    fn slice(&mut self, row: &Row, target: &str, block: usize, value: f64) -> SliceRecord {
        let rate = match row.metric {
            Metric::MessagesPerSecond => value,
            Metric::MegabytesPerSecond => value * 1e6 / row.load.message.size.max(1) as f64,
            _ => 20_000.0,
        };
        let latency = if row.metric == Metric::LatencyUs { value } else { 1e6 / rate.max(1.0) };
        let cpu = 0.9e6 / rate.max(1.0) * self.noise(0.03);
        let lost = u64::from(target == "classic" && row.id == "T9");
        let valid = lost == 0 && (target, row.id, block) != ("artemis", "D3", 2);
        let windows = if row.id.starts_with('D') { 50 } else { 0 };
        let moved: Vec<u64> = (0..windows).map(|_| (rate / 10.0 * self.noise(0.1)) as u64).collect();
        let until: Vec<f64> = (0..windows).map(|n| f64::from(n) / 10.0 - 0.9).collect();
        let measured: Measured = serde_json::from_value(json!({
            "seconds": 4.0, "sent_per_s": rate, "confirmed_per_s": rate, "received_per_s": rate, "messages_per_s": rate,
            "offered_per_s": null, "all_sent": 4000, "all_confirmed": 4000, "all_received": 4000, "latency_from": "send",
            "latency_us": summary(latency), "transit_us": null, "confirm_us": summary(latency), "lateness_us": null,
            "broker": {"cpu_us_per_message": cpu, "cores": 0.9, "switches_per_message": 0.1, "resident_bytes": 50 << 20,
                       "peak_resident_bytes": null, "write_bytes": null, "wchar": null, "processes": 1},
            "client": null, "busiest_thread": null, "other_cores": 0.02, "stolen_cores": 0.0,
            "over_time": {"until_s": until, "seconds": vec![0.1; moved.len()], "sent": moved, "confirmed": moved, "received": moved},
            "flushes_per_s": 900.0, "flushes_per_message": 0.01, "metrics": null,
            "integrity": {"check": "full", "lost": lost, "duplicated": 0, "reordered": 0, "corrupted": 0,
                          "damages": {"length": 0, "stamp": 0, "filling": 0}, "refused": 0, "returned": 0, "unknown_confirms": 0, "redelivered": 0},
            "verdict": {"valid": valid, "violations": if valid { vec![] } else { vec!["messages lost"] }, "notes": []}
        }))
        .unwrap();
        SliceRecord {
            target: target.to_owned(),
            block,
            superseded: false,
            error: None,
            lacks: None,
            measured: Some(measured),
        }
    }

    fn outcome(&mut self, row: &Row, index: usize, factor: f64, block_noise: &[f64]) -> CellOutcome {
        let facts = &targets()[index];
        let name = facts.target.name.clone();
        match (name.as_str(), row.id) {
            ("artemis", "O5") => {
                return CellOutcome::NotApplicable { lacks: "topic exchanges with bindings of its own".to_owned() };
            }
            ("artemis", "K6") => {
                return CellOutcome::Failed { error: "127.0.0.1:5702: connection refused (os error 111)".to_owned() };
            }
            ("classic", "M5") => return CellOutcome::Pending,
            _ => {}
        }
        let (speed, noise) = SPEEDS[index];
        let speed = speed * factor;
        let speed = if row.metric.more_is_better() { speed } else { 1.0 / speed };
        let values: Vec<f64> = block_noise.iter().map(|block| row.level * speed * block * self.noise(noise)).collect();
        let firsts: Vec<f64> = block_noise.iter().map(|block| row.level * block * self.noise(0.02)).collect();
        let all: Vec<SliceRecord> =
            values.iter().enumerate().map(|(at, value)| self.slice(row, &name, at + 1, *value)).collect();
        let valid = all.iter().filter(|slice| slice.measured.as_ref().unwrap().verdict.valid).count();
        let remarks =
            if valid < all.len() { vec![("INVALID: messages lost".to_owned(), all.len() - valid)] } else { Vec::new() };
        let ratios = Spread::of(values.iter().zip(&firsts).map(|(mine, first)| mine / first).collect());
        let limits = Spread::of(values.iter().map(|value| value / row.level / 2.6).collect());
        CellOutcome::Measured(Box::new(Figures {
            value: Spread::of(values).unwrap(),
            to_first: ratios.filter(|_| index > 0 && facts.role != Role::Limit),
            of_limit: limits.filter(|_| facts.role == Role::Broker),
            slices: all.len(),
            valid,
            remarks,
            all,
        }))
    }

    fn cell(&mut self, row: &Row, profile: Profile, at: &[(&str, f64)], published: Vec<Published>) -> Cell {
        let noise: Vec<f64> = (0..self.blocks).map(|_| self.noise(0.05)).collect();
        let factors: Vec<f64> = SPEEDS.iter().map(|_| self.noise(0.25)).collect();
        let targets = targets();
        let results = targets.iter().enumerate().map(|(index, facts)| CellResult {
            target: facts.target.name.clone(),
            outcome: self.outcome(row, index, if index < 2 { 1.0 } else { factors[index] }, &noise),
        });
        let results = results.collect();
        Cell {
            row: row.id.to_owned(),
            title: row.title.to_owned(),
            profile,
            point: at.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect::<BTreeMap<_, _>>(),
            metric: row.metric,
            load: row.load.clone(),
            scaled: Some("10 000 messages instead of 1 000 000".to_owned()),
            published,
            results,
        }
    }

    fn dynabyte(&mut self) -> SuiteRecord {
        let rows = [
            ("D1", "publish 0 B, sync", 4100.0, publish(0, 1), [910.91, 16_919.9, 6101.28]),
            ("D2", "publish 10 kB, sync", 3900.0, publish(10_000, 1), [537.29, 8148.63, 4861.12]),
            ("D3", "publish 0 B, async", 182_000.0, publish(0, 1000), [9152.59, 60_712.76, 20_852.01]),
            ("D4", "publish 10 kB, async", 31_000.0, publish(10_000, 1000), [2783.42, 8195.11, 6593.26]),
            ("D5", "receive 0 B", 240_000.0, publish(0, 1000), [13_392.25, 8909.63, 23_586.018]),
            ("D6", "receive 10 kB", 42_000.0, publish(10_000, 1000), [4223.54, 6837.04, 5871.02]),
        ];
        let mut cells = Vec::new();
        for profile in [Profile::Faithful, Profile::Fair] {
            for (id, title, level, load, means) in &rows {
                let platforms = ["RabbitMQ", "TIBCO EMS", "Apollo"].iter().zip(means);
                let printed = platforms.map(|(name, mean)| published(name, *mean, Some((mean * 0.3, mean * 1.3))));
                let row = Row { id, title, metric: Metric::MessagesPerSecond, level: *level, load: load.clone() };
                cells.push(self.cell(&row, profile, &[], printed.collect()));
            }
        }
        let mut bars = figure("Mean rates (table 1)", FigureKind::Bars, &["D1", "D2", "D3", "D4", "D5", "D6"], None);
        bars.log_y = true;
        let over =
            figure("Rate over time while the queue fills (figures 2 to 7)", FigureKind::OverTime, &["D1", "D4"], None);
        let claims = vec![
            claim(ClaimVerdict::Holds, "RabbitMQ gains tenfold by not waiting for each confirm (D3 over D1)."),
            claim(ClaimVerdict::DoesNotHold, "ActiveMQ gains nothing by not waiting."),
            claim(ClaimVerdict::Undecided, "TIBCO EMS is the fastest publisher at every size."),
        ];
        suite("dynabyte2018", "Dynabyte 2018: the fastest message platform", cells, vec![bars, over], claims)
    }

    fn crimson(&mut self) -> SuiteRecord {
        let rows = [
            ("Q1", "queue, send, non-persistent", 61_000.0, false, [2051.54, 8047.44]),
            ("Q3", "queue, send, persistent", 4300.0, true, [102.07, 1607.32]),
            ("Q5", "queue, send and receive, lazy acknowledgement", 52_000.0, false, [1682.78, 3870.93]),
            ("Q7", "queue, persistent, send and receive, lazy acknowledgement", 4100.0, true, [54.21, 1167.22]),
            ("Q12", "queue, persistent, selector, send and receive", 3900.0, true, [53.85, 1048.07]),
            ("T3", "topic, send and receive", 49_000.0, false, [1526.18, 3946.48]),
            ("T9", "topic, durable subscription, persistent", 3700.0, true, [55.4, 1205.26]),
        ];
        let mut cells = Vec::new();
        for (id, title, level, persistent, printed) in rows {
            let queue = if persistent { QueueKind::Durable } else { QueueKind::Exclusive };
            let load = Scenario::default().with(|s| {
                (s.message.persistent, s.message.size) = (persistent, 1024);
                s.topology.queue = queue;
                s.clients.window = 1;
            });
            let row = Row { id, title, metric: Metric::MessagesPerSecond, level, load };
            let printed = ["WebSphere MQ 5.3", "Sun MQ 3.5"].iter().zip(printed);
            let printed = printed.map(|(name, value)| published(name, value, None)).collect();
            cells.push(self.cell(&row, Profile::Fair, &[], printed));
        }
        let bars = figure(
            "Point to point and publish/subscribe",
            FigureKind::Bars,
            &["Q1", "Q3", "Q5", "Q7", "Q12", "T3", "T9"],
            None,
        );
        let mut cpu = figure("CPU of the broker", FigureKind::Bars, &["Q1", "Q3"], None);
        cpu.metric = Some(Metric::CpuUsPerMessage);
        suite("crimson2003", "Crimson 2003: Sun MQ and WebSphere MQ", cells, vec![bars, cpu], Vec::new())
    }

    fn osu(&mut self) -> SuiteRecord {
        let mut cells = Vec::new();
        for power in (0..=20).step_by(2) {
            let size = 1 << power;
            let load = Scenario::default().with(|s| s.message.size = size);
            let rate = 190_000.0 / (1.0 + size as f64 / 4000.0);
            let at = [("size", size as f64)];
            let row = Row {
                id: "O1",
                title: "direct exchange, 1:1",
                metric: Metric::MegabytesPerSecond,
                level: rate * size as f64 / 1e6,
                load: load.clone(),
            };
            let printed = published("Qpid over IPoIB", (size as f64 / 40.0).min(350.0), None);
            cells.push(self.cell(&row, Profile::Fair, &at, vec![printed]));
            let row = Row {
                id: "O3",
                title: "direct exchange, ping-pong",
                metric: Metric::LatencyUs,
                level: 46.0 + size as f64 / 900.0,
                load,
            };
            cells.push(self.cell(&row, Profile::Fair, &at, Vec::new()));
        }
        for pairs in [1.0, 2.0, 4.0, 8.0] {
            for size in [64.0, 65_536.0] {
                let row = Row {
                    id: "O2",
                    title: "direct exchange, pairs",
                    metric: Metric::MessagesPerSecond,
                    level: 150_000.0 * (1.0 + pairs / 9.0),
                    load: Scenario::default(),
                };
                cells.push(self.cell(&row, Profile::Fair, &[("pairs", pairs), ("size", size)], Vec::new()));
            }
        }
        for bindings in [1.0, 4.0, 16.0, 64.0, 256.0, 1024.0] {
            let row = Row {
                id: "O5",
                title: "topic exchange, one binding matches",
                metric: Metric::MessagesPerSecond,
                level: 170_000.0 - 40.0 * bindings,
                load: Scenario::default(),
            };
            cells.push(self.cell(&row, Profile::Fair, &[("bindings", bindings)], Vec::new()));
        }
        for rate in [1000.0, 2000.0, 4000.0, 8000.0] {
            let row = Row {
                id: "O6",
                title: "stock exchange",
                metric: Metric::CompletionUs,
                level: 210.0 + rate / 20.0,
                load: Scenario::default(),
            };
            let printed = published("Qpid over IPoIB", 400.0 + rate, None);
            cells.push(self.cell(&row, Profile::Fair, &[("rate", rate)], vec![printed]));
        }
        cells.sort_by(|a, b| a.row.cmp(&b.row));
        suite(
            "osu2008",
            "Ohio State 2008: AMQP over InfiniBand",
            cells,
            osu_figures(),
            vec![claim(ClaimVerdict::Holds, "The rate falls as bindings grow.")],
        )
    }

    fn kth(&mut self) -> SuiteRecord {
        let mut cells = Vec::new();
        let rows = [
            ("K1", 400, [297.9, 55.9, 63.5]),
            ("K2", 500, [232.7, 54.4, 63.2]),
            ("K3", 600, [165.1, 47.7, 54.9]),
            ("K6", 600, [197.7, 261.8, 464.0]),
        ];
        for (id, size, means) in rows {
            let load = publish(size * 1000, 1);
            let row = Row {
                id,
                title: "large messages",
                metric: Metric::MessagesPerSecond,
                level: 380_000.0 / size as f64,
                load,
            };
            let printed = ["RabbitMQ 3.6.2", "ActiveMQ 5.13.3", "Artemis 1.2.0"].iter().zip(means);
            let printed = printed.map(|(name, mean)| published(name, mean, Some((mean * 0.95, mean * 1.05)))).collect();
            cells.push(self.cell(&row, Profile::Fair, &[], printed));
        }
        let bars = figure("Figures 3.1 and 3.2", FigureKind::Bars, &["K1", "K2", "K3", "K6"], None);
        suite("kth2016", "KTH 2016: RabbitMQ, ActiveMQ and Artemis", cells, vec![bars], Vec::new())
    }

    fn mostlyuseless(&mut self) -> SuiteRecord {
        let mut cells = Vec::new();
        for consumers in [1.0, 2.0, 4.0, 8.0, 16.0, 32.0] {
            let row = Row {
                id: "M1",
                title: "consumers of one queue",
                metric: Metric::MessagesPerSecond,
                level: 140_000.0 / (1.0 + consumers / 30.0),
                load: Scenario::default(),
            };
            let printed = if consumers == 2.0 { vec![published("ActiveMQ 5.0", 3250.0, None)] } else { Vec::new() };
            cells.push(self.cell(&row, Profile::Fair, &[("consumers", consumers)], printed));
        }
        let row = Row {
            id: "M3",
            title: "survives 1024 queues",
            metric: Metric::Passed,
            level: 1.0,
            load: Scenario::default(),
        };
        let mut passed = self.cell(&row, Profile::Fair, &[], Vec::new());
        for result in &mut passed.results {
            if let CellOutcome::Measured(figures) = &mut result.outcome {
                figures.value = Spread::of(vec![1.0; 5]).unwrap();
                (figures.to_first, figures.of_limit) = (None, None);
            }
        }
        cells.push(passed);
        let row = Row {
            id: "M5",
            title: "persistence",
            metric: Metric::MessagesPerSecond,
            level: 30_000.0,
            load: publish(6, 1000),
        };
        cells.push(self.cell(&row, Profile::Fair, &[], vec![published("ActiveMQ 5.0, AMQ store", 900.0, None)]));
        let lines = figure("Rate by consumers", FigureKind::Lines, &["M1"], Some("consumers"));
        suite("mostlyuseless2007", "Mostly useless 2007: playing with ActiveMQ", cells, vec![lines], Vec::new())
    }
}

fn osu_figures() -> Vec<Figure> {
    let mut bandwidth = figure("Figure 3d: bandwidth by size", FigureKind::Lines, &["O1"], Some("size"));
    bandwidth.log_y = true;
    vec![
        bandwidth,
        figure("Figure 4c: ping-pong latency", FigureKind::Lines, &["O3"], Some("size")),
        Figure { log_y: true, ..figure("Ping-pong: latency by percentile", FigureKind::Percentiles, &["O3"], None) },
        figure("Figure 4a: pairs on one exchange", FigureKind::Lines, &["O2"], Some("pairs")),
        Figure {
            metric: Some(Metric::CpuUsPerMessage),
            ..figure("Figure 4b: CPU by pairs", FigureKind::Lines, &["O2"], Some("pairs"))
        },
        figure("Figure 9: rate by bindings", FigureKind::Lines, &["O5"], Some("bindings")),
        figure("Figure 13b: completion time by order rate", FigureKind::Lines, &["O6"], Some("rate")),
    ]
}
