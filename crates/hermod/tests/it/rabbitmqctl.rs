//! The program under the names of RabbitMQ's tools.

use std::path::Path;
use std::process::Command;

use crate::server::{Server, hermod, run};
use crate::stomp::Stomp;

/// Runs one of the tools for the server in `data`. Returns its exit code, and its output on both
/// streams.
fn tool(tools: &Path, data: &Path, line: &str) -> (i32, String) {
    let mut words = line.split(' ');
    let name = words.next().unwrap();
    let path = tools.join(name);
    if !path.exists() {
        std::os::unix::fs::symlink(hermod("", data).get_program(), &path).unwrap();
    }
    let mut command = Command::new(path);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("HERMOD_")) {
        command.env_remove(name);
    }
    let words = words.map(|word| word.replace('~', " "));
    let (code, stdout, stderr) = run(command.env("HERMOD_DATA_DIR", data).args(words));
    (code, stdout + &stderr)
}

#[test]
fn verbs_answer_in_the_shapes_that_scripts_know() {
    let (tools, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Server::start(dir.path(), &[]);
    let mut client = Stomp::connect(&server);
    client.publish("orders", "one");
    for (line, code, said) in [
        ("rabbitmqctl add_user alice one", 0, "Adding user \"alice\" ...\n"),
        ("rabbitmqctl -q add_user alice one", 70, "Error:\nuser 'alice' already exists\n"),
        ("rabbitmqctl -n rabbit@x set_user_tags alice monitoring other -q", 0, ""),
        ("rabbitmqctl list_users -q", 0, "user|tags\nalice|[monitoring, other]\nguest|[administrator]\n"),
        ("rabbitmqctl authenticate_user alice one -q", 0, "Success\n"),
        ("rabbitmqctl authenticate_user alice two -q", 65, "Error:\nfailed to authenticate user \"alice\"\n"),
        ("rabbitmqctl add_vhost v -q", 0, ""),
        ("rabbitmqctl add_vhost v -q", 0, ""),
        ("rabbitmqctl list_vhosts -s", 0, "/\nv\n"),
        ("rabbitmqctl set_permissions -p v alice .* .* .* -q", 0, ""),
        ("rabbitmqctl set_permissions -p v bob .* .* .*", 67, "Error:\nuser 'bob' does not exist\n"),
        ("rabbitmqctl set_permissions -p v alice .*", 64, "Error:\nnot enough arguments.\n"),
        ("rabbitmqctl list_permissions -p v -s", 0, "alice|.*|.*|.*\n"),
        ("rabbitmqctl list_permissions -p w", 65, "Error:\nVirtual host 'w' does not exist\n"),
        ("rabbitmqctl list_user_permissions alice -s", 0, "v|.*|.*|.*\n"),
        ("rabbitmqctl list_queues", 0, "Listing queues for vhost / ...\nname|messages\norders|1\n"),
        (
            "rabbitmqctl list_queues -q name type,durable --formatter json",
            0,
            "[{\"durable\":true,\"name\":\"orders\",\"type\":\"classic\"}]\n",
        ),
        ("rabbitmqctl list_queues name arguments_without_effect -s", 0, "orders|[]\n"),
        ("rabbitmqctl list_queues colour", 64, "Error:\nInfo key(s) colour are not supported\n"),
        ("rabbitmqctl set_vhost_limits -p v {\"max-queues\":3} -q", 0, ""),
        ("rabbitmqctl list_vhost_limits -p v -s", 0, "{\"max-connections\":-1,\"max-queues\":3}\n"),
        ("rabbitmqctl eval rabbit_alarm:set_alarm({{resource_limit,~disk,~node()},~[]}).", 0, "ok\n"),
        ("rabbitmq-diagnostics check_local_alarms -q", 70, "Error:\nalarms are up: disk\n"),
        ("rabbitmqctl eval rabbit_alarm:clear_alarm({resource_limit,~disk,~node()}).", 0, "ok\n"),
        ("rabbitmqctl set_vm_memory_high_watermark 0.000000001 -q", 0, ""),
        ("rabbitmq-diagnostics check_alarms -q", 70, "Error:\nalarms are up: memory\n"),
        ("rabbitmqctl set_vm_memory_high_watermark 0.4 -q", 0, ""),
        ("rabbitmq-diagnostics check_alarms -q", 0, "Hermod reported no alarms\n"),
        ("rabbitmqctl purge_queue orders -q", 0, ""),
        ("rabbitmqctl delete_queue orders -q", 0, "Queue was successfully deleted with 0 ready messages\n"),
        ("rabbitmqctl delete_queue orders -q", 65, "Error:\nno queue 'orders' in vhost '/'\n"),
        ("rabbitmqctl await_startup -q", 0, ""),
        ("rabbitmq-diagnostics -q ping", 0, "Ping succeeded\n"),
        ("rabbitmqctl delete_user alice -q", 0, ""),
        ("rabbitmqctl delete_user alice -q", 67, "Error:\nuser 'alice' does not exist\n"),
        ("rabbitmqctl delete_vhost v -q", 0, ""),
        ("rabbitmqctl add_vhost --help", 0, "add_vhost: as RabbitMQ documents it\n"),
        ("rabbitmq-plugins enable rabbitmq_management -q", 0, ""),
        ("rabbitmq-plugins enable rabbitmq_delayed_message_exchange rabbitmq_message_deduplication -q", 0, ""),
        ("rabbitmqctl trace_on", 0, "Starting tracing for vhost \"/\" ...\nTrace enabled for vhost /\n"),
        ("rabbitmqctl list_vhosts -q name tracing", 0, "name|tracing\n/|true\n"),
        ("rabbitmqctl trace_off -q -p /", 0, "Trace disabled for vhost /\n"),
        ("rabbitmqctl trace_on -p nowhere -q", 65, "Error:\nvhost 'nowhere' does not exist\n"),
        (
            "rabbitmqctl start_app",
            64,
            "Error:\nHermod has nothing for `rabbitmqctl start_app`; `rabbitmqctl help` lists what there is\n",
        ),
    ] {
        let (ended, text) = tool(tools.path(), dir.path(), line);
        assert_eq!((ended, text.replace('\t', "|").as_str()), (code, said), "{line}");
    }
    let (code, listed) =
        tool(tools.path(), dir.path(), "rabbitmqctl list_connections -q pid peer_port client_properties");
    let row: Vec<&str> = listed.lines().nth(1).unwrap().split('\t').collect();
    assert_eq!((code, row.len(), row[2]), (0, 3, "[]"), "{listed}");
    let (code, _) = tool(tools.path(), dir.path(), &format!("rabbitmqctl close_connection {} enough~of~it", row[0]));
    assert_eq!(code, 0);
    let last = client.frame();
    assert!(last.starts_with("ERROR\n") && last.contains("enough of it"), "{last}");
    let (code, _) = tool(tools.path(), dir.path(), "rabbitmqctl stop");
    assert_eq!((code, server.wait().0), (0, Some(0)));
    let (code, text) = tool(tools.path(), dir.path(), "rabbitmqctl status");
    assert!(code == 69 && text.contains("no server answers"), "{text}");
}

/// The formats and columns that tools ask for: Ansible's and Puppet's modules, scripts with awk,
/// monitoring.
#[test]
fn tools_get_the_format_the_columns_and_the_version_that_they_ask_for() {
    let (tools, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let flags = ["--compat-product=RabbitMQ", "--compat-version=4.2.0", "--cluster-name=orders"];
    let server = Server::start(dir.path(), &flags);
    let mut client = Stomp::connect(&server);
    client.publish("q", "m");
    client.send("SUBSCRIBE\nid:s\ndestination:/queue/q\nack:client\n\n");
    client.frame();
    let ask = |line: &str| tool(tools.path(), dir.path(), &format!("rabbitmqctl {line}"));
    let (code, text) = ask("-q status --formatter json");
    let status: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, status["rabbitmq_version"].as_str()), (0, Some("4.2.0")), "{text}");
    assert_eq!((&status["totals"]["queue_count"], &status["product_name"]), (&1.into(), &"RabbitMQ".into()));
    let (_, text) = ask("status");
    assert!(text.starts_with("Status of node rabbit@") && text.contains("\nRabbitMQ version: 4.2.0\n"), "{text}");
    assert!(ask("cluster_status -q").1.contains("Cluster name: orders\n"));
    let pretty =
        "┌──────┬──────────┐\n│ name │ messages │\n├──────┼──────────┤\n│ q    │ 1        │\n└──────┴──────────┘\n";
    for (line, code, said) in [
        ("server_version -q", 0, "4.2.0\n"),
        ("list_queues --formatter csv name messages", 0, "\"name\",\"messages\"\n\"q\",1\n"),
        ("list_queues --formatter json_stream name messages", 0, "{\"messages\":1,\"name\":\"q\"}\n"),
        ("list_queues -q --formatter erlang name messages", 0, "[[{name,<<\"q\">>},{messages,1}]]\n"),
        ("list_queues -q --formatter pretty_table name messages", 0, pretty),
        ("list_queues name messages_persistent message_bytes -s", 0, "q|1|1\n"),
        ("add_user u p -q", 0, ""),
        ("list_user_limits -q --user u", 0, "{}\n"),
        ("set_user_limits u {\"max-connections\":5} -q", 0, ""),
        ("set_user_limits u {\"max-channels\":10} -q", 0, ""),
        ("list_user_limits -q --user u", 0, "{\"max-channels\":10,\"max-connections\":5}\n"),
        ("list_user_limits -q --global", 0, "user|limits\nu|{\"max-channels\":10,\"max-connections\":5}\n"),
        ("clear_user_limits u max-channels -q", 0, ""),
        ("list_user_limits -q --user u", 0, "{\"max-connections\":5}\n"),
        ("list_user_limits -q --user nobody", 67, "Error:\nUser \"nobody\" does not exist\n"),
        ("set_vhost_limits {\"max-connections\":5,\"max-queues\":10} -q", 0, ""),
        ("list_vhost_limits -q", 0, "{\"max-connections\":5,\"max-queues\":10}\n"),
        ("list_vhost_limits -q --global", 0, "vhost|limits\n/|{\"max-connections\":5,\"max-queues\":10}\n"),
        ("set_vhost_limits {\"max-queues\":10} -q", 0, ""),
        ("list_vhost_limits -q", 0, "{\"max-connections\":-1,\"max-queues\":10}\n"),
        ("clear_vhost_limits -q", 0, ""),
        ("list_vhost_limits -q", 0, "{}\n"),
        ("set_global_parameter tool {\"a\":[1]} -q", 0, ""),
        (
            "set_global_parameter tool [ -q",
            65,
            "Error:\nCould not parse JSON document: EOF while parsing a list at line 1 column 1\n",
        ),
        ("list_global_parameters -q", 0, "name|value\ncluster_name|orders\ntool|[{\"a\",[1]}]\n"),
        ("clear_global_parameter tool -q", 0, ""),
        ("set_cluster_name invoices", 0, "Setting cluster name to invoices ...\n"),
        ("list_global_parameters -q", 0, "name|value\ncluster_name|invoices\n"),
        ("set_vm_memory_high_watermark absolute 4G", 0, "Setting memory threshold to 4294967296 bytes ...\n"),
        ("set_vm_memory_high_watermark absolute 100M", 0, "Setting memory threshold to 104857600 bytes ...\n"),
        ("set_vm_memory_high_watermark relative 0.5 -q", 0, ""),
        ("set_disk_free_limit 50TB", 0, "Setting disk free limit to 50000000000000 bytes ...\n"),
        ("check_alarms -q", 70, "Error:\nalarms are up: disk\n"),
        ("set_disk_free_limit mem_relative much", 65, "Error:\n'much' is no multiple of the memory, as 1.5\n"),
        ("set_disk_free_limit mem_relative 0 -q", 0, ""),
        ("check_alarms -q", 0, "Hermod reported no alarms\n"),
        ("list_parameters -q", 0, ""),
        ("list_feature_flags -s", 0, "quorum_queue|enabled\nuser_limits|enabled\nstream_queue|enabled\n"),
        ("enable_feature_flag stream_queue -q", 0, ""),
        ("check_port_connectivity -s", 0, ""),
        ("check_port_listener x", 64, "Error:\n'x' is no port\n"),
    ] {
        let (ended, text) = ask(line);
        let text = if line.starts_with("check_port_connectivity") { String::new() } else { text.replace('\t', "|") };
        assert_eq!((ended, text.as_str()), (code, said), "{line}");
    }
    let (code, text) = ask("list_queues --formatter nope");
    assert!(code == 64 && text.contains("there is no formatter 'nope'"), "{text}");
    let (_, text) = ask("list_consumers -q");
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
    let head = ["queue_name", "channel_pid", "consumer_tag", "ack_required", "prefetch_count", "active", "arguments"];
    assert_eq!(rows[0], head);
    assert_eq!((rows[1][0], &rows[1][3..]), ("q", &["true", "0", "true", "[]"][..]), "{text}");
    assert!(rows[1][1].starts_with("<0.") && !rows[1][2].is_empty(), "{text}");
    let (_, text) = ask("list_channels -s");
    assert!(text.trim_end().ends_with("\tguest\t1\t1"), "{text}");
    let (_, text) = ask("list_connections -s ssl auth_mechanism channel_max");
    assert_eq!(text, "false\tPLAIN\t0\n");
}

#[test]
fn policies_are_set_listed_and_cleared() {
    let (tools, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let _server = Server::start(dir.path(), &[]);
    let head = "vhost|name|pattern|apply-to|definition|priority\n";
    let one = format!("{head}/|short|^q|queues|{{\"max-length\":1}}|2\n");
    let other = format!("{head}/|ceiling|^|all|{{\"max-length\":5}}|0\n");
    let table: &[(&str, i32, &str)] = &[
        ("list_policies -q", 0, ""),
        (
            "set_policy short ^q {\"max-length\":1} --priority 2 --apply-to queues",
            0,
            "Setting policy \"short\" for pattern \"^q\" to \"{\"max-length\":1}\" with priority \"2\" for vhost \"/\" ...\n",
        ),
        ("list_policies -q", 0, &one),
        ("list_policies -s", 0, one.strip_prefix(head).unwrap_or_default()),
        (
            "list_policies --formatter json -q",
            0,
            "[{\"apply-to\":\"queues\",\"definition\":\"{\\\"max-length\\\":1}\",\"name\":\"short\",\"pattern\":\"^q\",\"priority\":2,\"vhost\":\"/\"}]\n",
        ),
        (
            "set_policy short ^q {\"max-lengt\":1} -q",
            70,
            "Error:\npolicy 'short': 'max-lengt' is not a recognised policy setting\n",
        ),
        (
            "set_policy short ^q {\"max-length\":1} --priority high -q",
            65,
            "Error:\n\"high\" priority must be a number\n",
        ),
        ("set_policy short ^q", 64, "Error:\nnot enough arguments.\n"),
        ("set_policy -p gone short ^q {\"max-length\":1} -q", 65, "Error:\nvhost 'gone' does not exist\n"),
        ("list_policies -q", 0, &one),
        ("set_operator_policy ceiling ^ {\"max-length\":5} -q", 0, ""),
        ("list_operator_policies -q", 0, &other),
        ("list_policies -q", 0, &one),
        ("clear_policy short", 0, "Clearing policy \"short\" on vhost \"/\" ...\n"),
        ("clear_policy short -q", 65, "Error:\npolicy 'short' does not exist in vhost '/'\n"),
        ("clear_operator_policy ceiling", 0, "Clearing operator policy override \"ceiling\" on vhost \"/\" ...\n"),
        ("clear_operator_policy ceiling -q", 65, "Error:\noperator policy 'ceiling' does not exist in vhost '/'\n"),
        ("list_policies -q", 0, ""),
        ("list_operator_policies -q", 0, ""),
    ];
    for (line, code, said) in table {
        let (ended, text) = tool(tools.path(), dir.path(), &format!("rabbitmqctl {line}"));
        assert_eq!((ended, text.replace('\t', "|").as_str()), (*code, *said), "{line}");
    }
    let (code, text) = tool(tools.path(), dir.path(), "rabbitmqctl set_policy short ^q {\"max- -q");
    assert!(code == 65 && text.contains("Could not parse JSON document"), "{text}");
}
