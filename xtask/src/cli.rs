//! The command line of the tasks, and their exit codes.

use std::ffi::OsString;
use std::path::PathBuf;
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
/// Server binaries are cached outside the checkout: in `$BROKER_CACHE_DIR` if set, for root in
/// /var/cache/provisioning-broker, else in $XDG_CACHE_HOME/provisioning-broker or ~/.cache/provisioning-broker.
/// Removing the cache is safe; the next run fills it again.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
pub(crate) struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Find or build the servers for the tests.
    ///
    /// Postgres 15 or newer comes from PATH, from /usr/lib/postgresql, or from the distribution's package, which is
    /// unpacked into the cache and not installed. `BROKER_POSTGRES=package` ignores an installed one.
    ///
    /// etcd, kube-apiserver and kube-controller-manager come from `$KUBEBUILDER_ASSETS`, from the cache, or from a Go
    /// build of the module files in tests/servers/modules. Go keeps its own caches, see `go env`.
    ///
    /// `--crossplane` adds Crossplane, two composition functions and provider-nop, built in the same way.
    ///
    /// Changes no service and no file outside these caches.
    Setup(SetupArguments),
    /// Set up, then run every test of the workspace, in all tiers.
    ///
    /// The tier `unit` holds the tests in the crates and the examples of the documentation. Every test target of
    /// broker-tests is a tier; the targets on Crossplane form one. Servers are started once, shared, and stopped after
    /// the run. Crossplane tests have their own servers and run concurrently with the others.
    ///
    /// Also builds a static binary for the image test; rustup adds the toolchain's musl target.
    ///
    /// No test is skipped: the run fails on an ignored test, and if fewer or more tests run than the test binaries
    /// list.
    Test(TestArguments),
    /// Start real servers for manual use of the broker, and print their environment variables.
    ///
    /// Sets up, and starts Postgres and a Kubernetes control plane until `cargo xtask down`. Prepares a platform: the
    /// broker's tables and minimal tables of the platform, a Project with a namespace, a cloud and a credential, the
    /// blueprints of examples/catalog, and their kinds. Use it as `eval "$(cargo xtask up)"`; a
    /// repeated call prints the same. `KUBECONFIG` has the broker's generated roles only; `ADMIN_KUBECONFIG` has full
    /// access.
    ///
    /// Without `--crossplane` a declared resource reaches Provisioning. With it, Crossplane, its functions and
    /// provider-nop run too, and simulated agents enrol for machines that boot: a resource reaches Ready and can be
    /// torn down. Only one Crossplane runs per machine; `up` waits for another run's.
    ///
    /// `--catalog` installs another catalog instead, also on servers that already run: its kinds and Compositions, the
    /// roles for them, and its blueprints. Copy examples/catalog and add your own, because the roles are those of one
    /// catalog.
    ///
    /// Each checkout has its own servers; `$BROKER_UP_DIR` selects another directory for their state. Their data is
    /// temporary and is deleted when they stop.
    Up(UpArguments),
    /// Stop the servers that `up` started and delete their data.
    Down,
    /// Run the servers of `up` in the foreground.
    #[command(hide = true)]
    Keep(UpArguments),
    /// Run the simulation with many seeds: the whole broker in memory, with faults, until it converges.
    ///
    /// For a seed that fails, prints the command that repeats it and the shortest run that still fails.
    Simulate(SimulateArguments),
    /// Run the six proof checks: search for violations of the guarantees.
    ///
    /// Each check runs with the counts of a normal test run, prints its cases and violations, and updates
    /// docs/proof.md. `--nightly` uses the big counts, which have their own table there.
    ///
    /// The check `mutations` tests that every mutation patch in tests/mutations applies and that its tests exist. With
    /// `--nightly` it applies each patch to a copy of the sources below target/mutations and runs those tests; one of
    /// them must fail. An interrupted run continues where it stopped, unless a file changed; to start over, remove
    /// target/mutations/caught-*.
    Prove(ProveArguments),
    /// Check formatting, lints, documentation, features, packages, dependencies, workflows and tidiness; warnings are
    /// errors.
    ///
    /// Every published library is also checked alone, without features and with each of them: the features of the
    /// workspace would hide a missing one. Its public items are compared with docs/api. Every step runs, even after a
    /// failure.
    ///
    /// cargo-deny checks dependencies with deny.toml, actionlint checks .github/workflows. Both are built into the
    /// cache at pinned versions.
    Lint(LintArguments),
    /// Check what the compiler cannot: allowed dependencies, file headers, unfinished marks, generated files.
    ///
    /// Prints one line per finding: file, line, rule, problem, fix.
    Tidy,
    /// Measure the hot paths, and the whole broker against bare calls and a naive implementation; update
    /// docs/benchmarks.md.
    ///
    /// callgrind counts instructions, an allocator counts bytes. Workloads run on real servers in up to three ways, in
    /// alternating rounds; the page records ratios per round, not times.
    ///
    /// valgrind comes from PATH or from the distribution's package, which is unpacked into the cache and not installed.
    /// Servers are found or built as by `setup`.
    Bench(BenchArguments),
    /// Write the generated files.
    ///
    /// They are committed. `tidy` fails if one is stale; `lint` fails if a listing in docs/api is.
    Docs,
}

#[derive(Args, Debug)]
struct SetupArguments {
    /// Also set up the tier `crossplane`.
    #[arg(long)]
    crossplane: bool,
}

#[derive(Args, Debug)]
pub(crate) struct TestArguments {
    /// Run only tests whose name contains one of these.
    #[arg(value_name = "FILTER")]
    pub(crate) filters: Vec<String>,
    /// Run only this tier: unit, contract, or a test target of broker-tests such as simulation, servers, crossplane.
    #[arg(long)]
    pub(crate) tier: Option<String>,
    /// Use the big counts (sets `BROKER_NIGHTLY=1`). Excludes the tier `proof`, which `prove --nightly` runs optimised.
    #[arg(long)]
    pub(crate) nightly: bool,
    /// Run only the fast tests: the libraries' unit tests without documentation examples, the contract suites on
    /// in-memory adapters, and the simulation. Builds nothing else and needs no server.
    #[arg(long, conflicts_with_all = ["nightly", "tier"])]
    pub(crate) quick: bool,
}

#[derive(Args, Debug)]
struct LintArguments {
    /// Also build each package from its own files, against the other packages.
    #[arg(long)]
    nightly: bool,
}

#[derive(Args, Debug)]
pub(crate) struct UpArguments {
    /// Also run Crossplane; builds it if necessary.
    #[arg(long)]
    pub(crate) crossplane: bool,
    /// The directory of the catalog to install, instead of examples/catalog.
    #[arg(long, value_name = "DIR")]
    pub(crate) catalog: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct SimulateArguments {
    /// The number of seeds.
    #[arg(long, default_value_t = 1_000, conflicts_with = "seed")]
    pub(crate) seeds: u64,
    /// Run only this seed.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
}

#[derive(Args, Debug)]
pub(crate) struct ProveArguments {
    /// Run only these checks.
    #[arg(value_name = "CHECK")]
    pub(crate) checks: Vec<ProofCheck>,
    /// Use the big counts.
    #[arg(long)]
    pub(crate) nightly: bool,
    /// Build and run only mutation patches whose name contains this; docs/proof.md stays unchanged.
    #[arg(long = "variant", value_name = "NAME")]
    pub(crate) variants: Vec<String>,
}

/// A proof check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProofCheck {
    /// The model check: every order of events, over the real decisions.
    Model,
    /// The simulation: many seeded runs of the whole broker in memory, with faults.
    Simulation,
    /// The fault matrix: each external call, each fault, six workflows.
    Matrix,
    /// The differential oracle: the same random histories on in-memory and real adapters.
    Oracle,
    /// Secret leaks: random secrets on every path, searched for in all output and storage.
    SecretLeaks,
    /// Mutation tests: patches that break the product, each of which a test must detect.
    Mutations,
}

#[derive(Args, Debug)]
struct BenchArguments {
    /// Run only these benchmarks.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Compare the counted figures with the committed ones and write nothing. Fails if one is more than 5% worse or
    /// misses its limit. Ratios are not compared.
    #[arg(long)]
    check: bool,
}

/// Runs the task of a command line; the first argument is the program's name.
///
/// A failure prints one line on standard error and returns exit code 1; bad usage returns 2.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let task = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli.task,
        Err(usage) => {
            // If the output fails, nothing can report it.
            let _ = usage.print();
            return ExitCode::from(u8::try_from(usage.exit_code()).unwrap_or(2));
        }
    };
    match run_task(&task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", one_line(&*error));
            ExitCode::FAILURE
        }
    }
}

fn run_task(task: &Task) -> Result<()> {
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

/// Starts servers and the broker of this checkout.
fn up(UpArguments { crossplane, catalog }: &UpArguments) -> Result<()> {
    let workspace = Workspace::load()?;
    let build = || {
        let mut command = workspace.cargo(&["build", "--quiet", "--bin", "provisioning-broker"]);
        let status = run_command(&mut command)?;
        ensure!(status.success(), "building the broker failed ({status})");
        Ok(())
    };
    let program = || workspace.cargo(&["run", "--quiet", "--bin", "provisioning-broker", "--"]);
    let samples = workspace.root().join("examples/catalog");
    let checkout = Checkout {
        target: workspace.target(),
        catalog: catalog.as_ref().unwrap_or(&samples),
        reinstall: catalog.is_some(),
        build: &build,
        program: &program,
    };
    broker_test_servers::up::up(&checkout, *crossplane)
}
