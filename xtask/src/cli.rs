//! The command line: what can be asked for, and what becomes of the answer.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::workspace::{Workspace, run as run_command};
use crate::{bench, docs, lint, prove, simulate, test, tidy};
use broker_app::one_line;
use broker_test_servers::tools::{CrossplaneTools, Tools, cloud_init_schema};
use broker_test_servers::up::{Checkout, down, keeper};

/// The workspace's tasks.
///
/// Server binaries are kept in a cache outside the checkout: `$BROKER_CACHE_DIR` if set, for root
/// /var/cache/provisioning-broker, for others $XDG_CACHE_HOME/provisioning-broker or
/// ~/.cache/provisioning-broker. Removing it is safe; the next run fills it again.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
pub(crate) struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Find or build the servers that the tests run on.
    ///
    /// Postgres 15 or newer is taken from PATH, from /usr/lib/postgresql, or from the
    /// distribution's package, which is unpacked into the cache and not installed.
    /// `BROKER_POSTGRES=package` ignores an installed one.
    ///
    /// etcd, kube-apiserver and kube-controller-manager are each taken from `$KUBEBUILDER_ASSETS`,
    /// from the cache, or built with Go from the module files in tests/servers/modules. Go keeps its own
    /// caches, as `go env` shows them.
    ///
    /// With `--crossplane`, also Crossplane, two composition functions and a provider that makes
    /// nothing, built in the same way.
    ///
    /// No service and no file of the machine outside these caches is changed.
    Setup(SetupArguments),
    /// Set up, then run every test of the workspace, in all tiers.
    ///
    /// The tier `unit` holds the tests beside the code and the documentation's examples; every test
    /// target of broker-tests is a tier of its own, those on Crossplane are one. Servers are started
    /// once, shared, and ended with the run; those on Crossplane have servers of their own, and run
    /// beside the others.
    ///
    /// The binary is also built statically, for the test of the image; rustup adds the musl target of the toolchain.
    ///
    /// Nothing is skipped: an ignored test, or a number of executed tests that differs from what
    /// the test binaries list, fails the run.
    Test(TestArguments),
    /// Start real servers to try the broker on, and print what a shell has to know of them.
    ///
    /// Sets up, then starts Postgres and a Kubernetes control plane, which run until `cargo xtask down`,
    /// and furnishes them as a platform would: the broker's tables and minimal ones of its neighbours, a
    /// Project with a namespace, a cloud and a credential, the blueprints of examples/catalog, and their
    /// kinds. Use it as `eval "$(cargo xtask up)"`; called again, it prints the same. `KUBECONFIG` is the broker's, with its
    /// generated roles only; `ADMIN_KUBECONFIG` may do everything.
    ///
    /// Without `--crossplane` a declared resource gets as far as Provisioning. With it, Crossplane, its functions and a
    /// provider that makes nothing run as well, and agents are played for machines that boot: a resource becomes Ready
    /// and goes again. A machine runs one Crossplane at a time; `up` waits for another run that has one.
    ///
    /// Each checkout has servers of its own; `$BROKER_UP_DIR` names another place to remember them in. Their
    /// data is in a temporary directory, and is gone when they end.
    Up(UpArguments),
    /// End the servers that `up` started, with everything in them.
    Down,
    /// Hold the servers that `up` asks for.
    #[command(hide = true)]
    Keep(UpArguments),
    /// Tell the stories of many seeds: the whole broker in memory, with faults, until it comes to rest.
    ///
    /// A seed that fails is printed with the one command that repeats it and with the shortest story
    /// that still fails.
    Simulate(SimulateArguments),
    /// Look for promises that do not hold, in all six ways.
    ///
    /// Runs of each way the share that is in a normal test run, and prints what was tried, how often, and what was
    /// found. It is written into docs/proof.md, too. With `--nightly` the counts are the big ones, and have a table of
    /// their own there.
    ///
    /// The last way, `mutations`, checks that each broken variant in tests/mutations still fits and that the tests which
    /// it names exist. With `--nightly` it copies the sources below target/mutations, breaks them there in each of these
    /// ways, and looks whether those tests notice. What was caught before such a run was interrupted is not tried
    /// again, as long as no file has changed; to try it all the same, remove target/mutations/caught-*.
    Prove(ProveArguments),
    /// Check formatting, lints, documentation, features, packages, dependencies, workflows and tidiness, warnings as errors.
    ///
    /// Every published library is also checked by itself, without features and with each of them,
    /// because in the workspace its neighbours' features would hide a missing one. Its public items are
    /// compared with their listing in docs/api. All steps run, whatever failed before.
    ///
    /// cargo-deny checks dependencies by deny.toml, actionlint checks .github/workflows. Both are built into the
    /// cache at their pinned versions, actionlint with Go.
    Lint(LintArguments),
    /// Check what the compiler cannot: allowed dependencies, file headers, unfinished marks,
    /// generated files.
    ///
    /// Each problem is a line: file, line, rule, what is wrong, how to mend it.
    Tidy,
    /// Measure how much the hot paths take, and the whole beside bare calls and the naive way, and
    /// write it into docs/benchmarks.md.
    ///
    /// Instructions are counted by callgrind, bytes by an allocator. Works of the whole run on real
    /// servers, each in up to three ways in turns; ratios within a round are kept, and no time.
    ///
    /// valgrind is taken from PATH, or from the distribution's package, which is unpacked into the
    /// cache and not installed. Servers are found or built as by `setup`.
    Bench(BenchArguments),
    /// Write the generated files.
    ///
    /// They are committed; `tidy` fails when one is not what the code would write now, and `lint` when a listing of public
    /// items in docs/api is not.
    Docs,
}

#[derive(Args, Debug)]
struct SetupArguments {
    /// Also what the tier `crossplane` runs on.
    #[arg(long)]
    crossplane: bool,
}

#[derive(Args, Debug)]
pub(crate) struct TestArguments {
    /// Run only the tests whose name contains one of these.
    #[arg(value_name = "FILTER")]
    pub(crate) filters: Vec<String>,
    /// Run only this tier: unit, contract, or a test target of broker-tests such as simulation, servers, crossplane.
    #[arg(long)]
    pub(crate) tier: Option<String>,
    /// Run the big counts (sets `BROKER_NIGHTLY=1` for the tests). Those of the tier `proof` are left to `prove
    /// --nightly`, which runs them optimised.
    #[arg(long)]
    pub(crate) nightly: bool,
    /// Run only what an edit is tried with first: the libraries' unit tests without the documentation's examples, the
    /// contract suites on adapters in memory, and the simulation. Nothing else is built, and no server is needed.
    #[arg(long, conflicts_with_all = ["nightly", "tier"])]
    pub(crate) quick: bool,
}

#[derive(Args, Debug)]
struct LintArguments {
    /// Also build each package from its own files, against the other packages.
    #[arg(long)]
    nightly: bool,
}

/// What the servers should be.
#[derive(Args, Debug)]
pub(crate) struct UpArguments {
    /// With Crossplane, which is built if need be.
    #[arg(long)]
    pub(crate) crossplane: bool,
}

#[derive(Args, Debug)]
pub(crate) struct SimulateArguments {
    /// How many seeds.
    #[arg(long, default_value_t = 1_000, conflicts_with = "seed")]
    pub(crate) seeds: u64,
    /// This one seed only.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
}

#[derive(Args, Debug)]
pub(crate) struct ProveArguments {
    /// Only these ways; without any, all of them.
    #[arg(value_name = "WHAT")]
    pub(crate) what: Vec<What>,
    /// With the big counts.
    #[arg(long)]
    pub(crate) nightly: bool,
    /// Try the broken variants whose name contains this, and no others; the page is left as it is.
    #[arg(long = "variant", value_name = "NAME")]
    pub(crate) variants: Vec<String>,
}

/// A way to look for a promise that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum What {
    /// Every order of events, over the real decisions.
    Model,
    /// Many lives of the whole broker in memory, with faults, by seed.
    Simulation,
    /// Each call that leaves the process, each fault, six workflows.
    Matrix,
    /// The same random histories through in-memory and real adapters.
    Oracle,
    /// Random secrets through all paths, searched for in all that is said and stored.
    SecretLeaks,
    /// The product broken on purpose: does anybody notice?
    Mutations,
}

#[derive(Args, Debug)]
struct BenchArguments {
    /// Run only these benchmarks; without any, all of them.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Compare what is counted with the committed figures and leave them as they are; more than 5%
    /// worse fails, and so does a missed bar. Ratios are not compared: they are no test.
    #[arg(long)]
    check: bool,
}

/// Runs the task that the arguments name; the first of them is the program's own name.
///
/// A failure is one line on the standard error and exit code 1; bad usage is exit code 2.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let task = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli.task,
        Err(usage) => {
            // It is the standard output or error itself that failed, so there is nowhere to say so.
            let _ = usage.print();
            return ExitCode::from(u8::try_from(usage.exit_code()).unwrap_or(2));
        }
    };
    match perform(&task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", one_line(&*error));
            ExitCode::FAILURE
        }
    }
}

fn perform(task: &Task) -> Result<()> {
    match task {
        Task::Setup(arguments) => setup(arguments),
        Task::Test(arguments) => test::run(arguments),
        Task::Up(arguments) => up(arguments),
        Task::Down => down(Workspace::load()?.target()),
        Task::Keep(arguments) => keeper::run(arguments.crossplane),
        Task::Simulate(arguments) => simulate::run(arguments),
        Task::Prove(arguments) => prove::run(arguments),
        Task::Lint(arguments) => lint::run(arguments.nightly),
        Task::Tidy => {
            let findings = tidy::run()?;
            ensure!(findings == 0, "tidy found problems: {findings}");
            Ok(())
        }
        Task::Bench(arguments) => bench::run(&arguments.names, arguments.check),
        Task::Docs => docs::write(),
    }
}

fn setup(SetupArguments { crossplane }: &SetupArguments) -> Result<()> {
    let tools = Tools::find_or_build()?;
    let mut found =
        vec![tools.postgres_bin, tools.etcd, tools.kube_apiserver, tools.kube_controller_manager];
    found.push(cloud_init_schema()?);
    if *crossplane {
        let tools = CrossplaneTools::find_or_build()?;
        found.extend([tools.crossplane, tools.patch_and_transform]);
        found.extend([tools.auto_ready, tools.provider_nop]);
    }
    for path in found {
        println!("{}", path.display());
    }
    Ok(())
}

/// Brings servers up with the broker of this checkout.
fn up(UpArguments { crossplane }: &UpArguments) -> Result<()> {
    let workspace = Workspace::load()?;
    let build = || {
        let mut command = workspace.cargo(&["build", "--quiet", "--bin", "provisioning-broker"]);
        let status = run_command(&mut command)?;
        ensure!(status.success(), "building the broker failed ({status})");
        Ok(())
    };
    let program = || workspace.cargo(&["run", "--quiet", "--bin", "provisioning-broker", "--"]);
    let catalog = workspace.root().join("examples/catalog");
    let target = workspace.target();
    let checkout = Checkout { target, catalog: &catalog, build: &build, program: &program };
    broker_test_servers::up::up(&checkout, *crossplane)
}
