//! `hermod service`: the broker as a service of Windows. Its manager starts `hermod service run`,
//! which tells it how the start goes and ends when the manager says so. On other systems a service
//! manager runs `hermod serve`, so the verb is refused there by name.

use clap::Command;

/// What runs a broker.
type Serve = fn(&clap::ArgMatches) -> Result<(), crate::exit::Failure>;

/// The arguments of the verb; `serve` are those of a broker.
pub(crate) fn command(serve: Command) -> Command {
    let run = serve.name("run").about("Run the broker for the service manager, which alone starts this").hide(true);
    Command::new("service")
        .about("Install or uninstall the broker as a service of Windows")
        .subcommand_required(true)
        .subcommand(Command::new("install").about("Install the service; its settings and data are in ProgramData"))
        .subcommand(Command::new("uninstall").about("Uninstall the service; settings and data stay"))
        .subcommand(run)
}

#[cfg(windows)]
pub(crate) use windows::run;

/// Refuses, and says what to use instead.
#[cfg(not(windows))]
pub(crate) fn run(_: &clap::ArgMatches, _: Serve) -> Result<(), crate::exit::Failure> {
    Err(crate::exit::Exit::Usage.because(
        "services are installed by this program on Windows only; here a service manager runs hermod serve, such as \
         systemd with the packages' hermod.service",
    ))
}

#[cfg(windows)]
mod windows {
    use std::ffi::{OsStr, OsString};
    use std::fmt::Display;
    use std::path::{Path, PathBuf};
    use std::sync::OnceLock;

    use clap::ArgMatches;
    use windows_service::service::{
        ServiceAccess, ServiceControl, ServiceErrorControl, ServiceInfo, ServiceStartType, ServiceState, ServiceType,
    };
    use windows_service::service_control_handler::{self, ServiceControlHandlerResult};
    use windows_service::service_manager::{ServiceManager, ServiceManagerAccess};
    use windows_service::{define_windows_service, service_dispatcher};

    use super::Serve;
    use crate::cli::output::show;
    use crate::exit::{Exit, Failure};
    use crate::{notify, signals};

    const NAME: &str = "hermod";
    /// An account of the system with few rights; it has no password.
    const ACCOUNT: &str = r"NT AUTHORITY\LocalService";
    /// Who may read and write the data: the system, administrators, and that account.
    const TRUSTED: [&str; 3] = ["*S-1-5-18", "*S-1-5-32-544", "*S-1-5-19"];

    /// What the entry of the service needs, which gets no argument of ours.
    static SERVICE: OnceLock<(ArgMatches, Serve)> = OnceLock::new();

    define_windows_service!(service_entry, service_main);

    /// Runs the verb.
    pub(crate) fn run(arguments: &ArgMatches, serve: Serve) -> Result<(), Failure> {
        match arguments.subcommand() {
            Some(("install", _)) => install(),
            Some(("run", given)) => {
                // This is the only call, so it is not set yet.
                let _ = SERVICE.set((given.clone(), serve));
                service_dispatcher::start(NAME, service_entry)
                    .map_err(|error| system("only the service manager runs this; use hermod serve", &error))
            }
            _ => uninstall(),
        }
    }

    /// The service, on a thread of its own.
    fn service_main(_: Vec<OsString>) {
        let Some((arguments, serve)) = SERVICE.get() else { return };
        let handler = |control| match control {
            ServiceControl::Stop | ServiceControl::Shutdown => {
                signals::stop();
                ServiceControlHandlerResult::NoError
            }
            ServiceControl::Interrogate => ServiceControlHandlerResult::NoError,
            _ => ServiceControlHandlerResult::NotImplemented,
        };
        // Without a handler there is no way to tell anything to the manager.
        let Ok(manager) = service_control_handler::register(NAME, handler) else { return };
        notify::register(manager);
        let code = match serve(arguments) {
            Ok(()) => 0,
            Err(failure) => {
                tracing::error!("{}", failure.lines());
                failure.exit.code()
            }
        };
        notify::ended(code);
    }

    fn install() -> Result<(), Failure> {
        let home = home()?;
        let made = |error: std::io::Error| Exit::CannotCreate.because(format!("{}: {error}", home.display()));
        std::fs::create_dir_all(&home).map_err(made)?;
        protect(&home)?;
        let settings = home.join("hermod.toml");
        if !settings.exists() {
            std::fs::write(&settings, "# The settings of the service.\r\n").map_err(made)?;
        }
        let program = std::env::current_exe().map_err(made)?;
        let place = |name: &str| home.join(name).into_os_string();
        let words = ["service", "run", "--config"].map(OsString::from);
        let flags =
            [place("hermod.toml"), "--data-dir".into(), place("data"), "--log-file".into(), place("hermod.log")];
        let information = ServiceInfo {
            name: NAME.into(),
            display_name: "Hermod message broker".into(),
            service_type: ServiceType::OWN_PROCESS,
            start_type: ServiceStartType::AutoStart,
            error_control: ServiceErrorControl::Normal,
            executable_path: program,
            launch_arguments: words.into_iter().chain(flags).collect(),
            dependencies: Vec::new(),
            account_name: Some(ACCOUNT.into()),
            account_password: None,
        };
        let manager = connect(ServiceManagerAccess::CONNECT | ServiceManagerAccess::CREATE_SERVICE)?;
        let service = manager
            .create_service(&information, ServiceAccess::CHANGE_CONFIG)
            .map_err(|error| system("the service cannot be installed", &error))?;
        service
            .set_description("Message broker for AMQP 0-9-1, AMQP 1.0, STOMP and MQTT")
            .map_err(|error| system("the service has no description", &error))?;
        show(&format!("installed; settings and data are in {}; start it with: sc start {NAME}\n", home.display()))
    }

    fn uninstall() -> Result<(), Failure> {
        let access = ServiceAccess::QUERY_STATUS | ServiceAccess::STOP | ServiceAccess::DELETE;
        let service = connect(ServiceManagerAccess::CONNECT)?
            .open_service(NAME, access)
            .map_err(|error| system("there is no such service", &error))?;
        service.delete().map_err(|error| system("the service cannot be uninstalled", &error))?;
        let state = service.query_status().map_err(|error| system("the service has no state", &error))?;
        if state.current_state != ServiceState::Stopped {
            service.stop().map_err(|error| system("the service does not stop", &error))?;
        }
        show(&format!("uninstalled; settings and data stay in {}\n", home()?.display()))
    }

    /// The folder of the service.
    fn home() -> Result<PathBuf, Failure> {
        let shared = std::env::var_os("ProgramData").filter(|path| !path.is_empty());
        let shared = shared.ok_or_else(|| Exit::System.because("the variable ProgramData names no folder"))?;
        Ok(Path::new(&shared).join("hermod"))
    }

    /// Lets only the trusted ones read and write a folder: there will be messages in it.
    fn protect(folder: &Path) -> Result<(), Failure> {
        let grants = TRUSTED.map(|who| format!("{who}:(OI)(CI)F"));
        let mut icacls = std::process::Command::new("icacls");
        icacls.arg(folder).args(["/inheritance:r", "/grant:r"]).args(grants.map(|grant| OsStr::new(&grant).to_owned()));
        match icacls.output() {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => Err(system("icacls cannot protect the folder", &String::from_utf8_lossy(&output.stdout))),
            Err(error) => Err(system("icacls cannot be run", &error)),
        }
    }

    fn connect(access: ServiceManagerAccess) -> Result<ServiceManager, Failure> {
        ServiceManager::local_computer(None::<&str>, access)
            .map_err(|error| system("the service manager refuses: this takes the shell of an administrator", &error))
    }

    fn system(what: &str, error: &dyn Display) -> Failure {
        Exit::System.because(format!("{what}: {error}"))
    }
}
