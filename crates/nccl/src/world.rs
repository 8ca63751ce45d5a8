//! Who takes part: how many processes there are, which of them this is, and where they meet.
//!
//! Pure but for [`World::from_env`], which reads the variables that launchers set.

use std::ops::Range;

use crate::{Error, Place, Result};

/// Rig's own variables, which come before any launcher's.
const PROCESS: &str = "RIG_NCCL_PROCESS";
const PROCESSES: &str = "RIG_NCCL_PROCESSES";
/// Where to meet: read whatever launcher there is.
const MEET: &str = "RIG_NCCL_MEET";
/// A name of the run, so that processes of two runs do not meet: read whatever launcher there is.
const JOB: &str = "RIG_NCCL_JOB";

/// The variables of one launcher.
struct Launcher {
    name: &'static str,
    process: &'static str,
    processes: &'static str,
    local: &'static str,
    locals: &'static str,
    job: &'static str,
}

/// The launchers whose variables are known, in the order in which they are looked for: torchrun's may be set by hand too, and
/// Slurm's are also there where one of the others was started by it.
const LAUNCHERS: [Launcher; 5] = [
    Launcher { name: "rig", process: PROCESS, processes: PROCESSES, local: "", locals: "", job: JOB },
    Launcher {
        name: "torchrun",
        process: "RANK",
        processes: "WORLD_SIZE",
        local: "LOCAL_RANK",
        locals: "LOCAL_WORLD_SIZE",
        job: "TORCHELASTIC_RUN_ID",
    },
    Launcher {
        name: "mpirun of Open MPI",
        process: "OMPI_COMM_WORLD_RANK",
        processes: "OMPI_COMM_WORLD_SIZE",
        local: "OMPI_COMM_WORLD_LOCAL_RANK",
        locals: "OMPI_COMM_WORLD_LOCAL_SIZE",
        job: "PMIX_NAMESPACE",
    },
    Launcher {
        name: "mpirun of MPICH or Intel MPI",
        process: "PMI_RANK",
        processes: "PMI_SIZE",
        local: "MPI_LOCALRANKID",
        locals: "MPI_LOCALNRANKS",
        job: "PMI_JOBID",
    },
    Launcher {
        name: "srun",
        process: "SLURM_PROCID",
        processes: "SLURM_NTASKS",
        local: "SLURM_LOCALID",
        locals: "SLURM_NTASKS_PER_NODE",
        job: "SLURM_JOB_ID",
    },
];

/// The most processes: what process 0 keeps a connection and a thread for.
const PROCESSES_MAX: u32 = 4096;

/// The processes of a communicator, as each of them knows it.
///
/// ```
/// # fn main() -> rig_nccl::Result<()> {
/// use rig_nccl::World;
/// // The second of the four processes of a run.
/// let world = World::new(1, 4, "node1:29400".parse()?)?.job("run 17");
/// assert_eq!((world.process(), world.processes()), (1, 4));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct World {
    process: u32,
    processes: u32,
    local: Option<u32>,
    locals: Option<u32>,
    place: Option<Place>,
    job: String,
}

impl World {
    /// A process by itself, with all its devices.
    ///
    /// ```
    /// use rig_nccl::World;
    /// let world = World::alone();
    /// assert_eq!((world.process(), world.processes(), world.place()), (0, 1, None));
    /// // All of the machine's GPUs are its own.
    /// assert_eq!(world.share(8), Ok(0..8));
    /// ```
    pub fn alone() -> World {
        World { process: 0, processes: 1, local: None, locals: None, place: None, job: String::new() }
    }

    /// Process `process` of `processes`, counted from 0, which meet at `place`.
    ///
    /// # Errors
    ///
    /// World where there is no such process.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig_nccl::Result<()> {
    /// use rig_nccl::{Error, Place, World};
    /// let place: Place = "node1:29400".parse()?;
    /// assert_eq!(World::new(3, 4, place.clone())?.process(), 3);
    /// // They are counted from 0.
    /// assert!(matches!(World::new(4, 4, place), Err(Error::World(_))));
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(process: u32, processes: u32, place: Place) -> Result<World> {
        if process >= processes || processes > PROCESSES_MAX {
            return Err(Error::World(format!(
                "there is no process {process} of {processes}: they are counted from 0, and at most {PROCESSES_MAX}"
            )));
        }
        Ok(World { process, processes, place: Some(place), ..World::alone() })
    }

    /// Gives the run a name: processes of other names are sent away.
    ///
    /// ```
    #[doc = include_str!("example_head.txt")]
    /// use rig_nccl::{Error, Options, Place, World};
    /// use std::time::Duration;
    /// # let meeting = std::env::temp_dir().join(format!("rig-nccl-job-{}", std::process::id()));
    /// // Two processes of two runs come to one place: they do not meet.
    /// let options = Options::default().meet(Duration::from_millis(300));
    /// let process = |index: u32, job: &str| {
    ///     let world = World::new(index, 2, Place::File(meeting.clone()))?.job(job);
    ///     rig_nccl::connect_on::<Cores>(&world, &devices[index as usize..][..1], options)
    /// };
    /// let (one, other) = std::thread::scope(|scope| {
    ///     let first = scope.spawn(|| process(0, "run 17"));
    ///     (process(1, "run 18"), first.join().expect("it does not panic"))
    /// });
    /// assert!(matches!((one, other), (Err(Error::Meeting(_)), Err(Error::Meeting(_)))));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn job(self, job: impl Into<String>) -> World {
        World { job: job.into(), ..self }
    }

    /// What the launcher's variables say: `RIG_NCCL_PROCESS` and `RIG_NCCL_PROCESSES` where they are set, else those of
    /// torchrun, of Open MPI's mpirun, of MPICH's and Intel's, of srun; a process by itself where none is.
    ///
    /// Where to meet is `RIG_NCCL_MEET`: `host:port`, or `file:` and a path. Without it, it is `MASTER_ADDR` and the port after
    /// `MASTER_PORT`, since torchrun's own store may listen on that port itself.
    ///
    /// # Errors
    ///
    /// World where variables are missing or wrong, with their names.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig_nccl::Result<()> {
    /// use rig_nccl::World;
    /// // As a script that starts the processes itself sets them; torchrun, mpirun and srun set their own.
    /// # // SAFETY: first thing in main, with no other thread.
    /// # unsafe {
    /// std::env::set_var("RIG_NCCL_PROCESS", "1");
    /// std::env::set_var("RIG_NCCL_PROCESSES", "2");
    /// std::env::set_var("RIG_NCCL_MEET", "node1:29400");
    /// # }
    /// let world = World::from_env()?;
    /// assert_eq!(world, World::new(1, 2, "node1:29400".parse()?)?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_env() -> Result<World> {
        World::read(&|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn read(variable: &dyn Fn(&str) -> Option<String>) -> Result<World> {
        let Some(launcher) = LAUNCHERS.iter().find(|launcher| variable(launcher.process).is_some()) else {
            return match variable(PROCESSES).or_else(|| variable("WORLD_SIZE")) {
                Some(many) if many != "1" => Err(Error::World(format!(
                    "there are {many} processes and no variable says which this is: set {PROCESS} or RANK"
                ))),
                _ => Ok(World::alone()),
            };
        };
        let number = |name: &str| -> Result<Option<u32>> {
            let Some(value) = variable(name) else { return Ok(None) };
            let wrong = |_| Error::World(format!("{name} is {value:?}, where {} sets a number", launcher.name));
            value.parse().map(Some).map_err(wrong)
        };
        let missing = |name: &str| {
            Error::World(format!(
                "{} is set and {name} is not: start the process by {}",
                launcher.process, launcher.name
            ))
        };
        let process = number(launcher.process)?.ok_or_else(|| missing(launcher.process))?;
        let processes = number(launcher.processes)?.ok_or_else(|| missing(launcher.processes))?;
        // What is only good for sharing a machine's GPUs out may be written otherwise, as Slurm's "2(x3)" is.
        let (local, locals) = (number(launcher.local).ok().flatten(), number(launcher.locals).ok().flatten());
        let job = variable(JOB).or_else(|| variable(launcher.job)).unwrap_or_default();
        if processes == 1 && process == 0 {
            return Ok(World { local, locals, ..World::alone() }.job(job));
        }
        let place = place(variable)?;
        let Some(place) = place else {
            return Err(Error::World(format!(
                "{processes} processes, and no place to meet: set {MEET} to host:port of process 0's machine, or to file: and \
                 a path that all share"
            )));
        };
        Ok(World { local, locals, job, ..World::new(process, processes, place)? })
    }

    /// Which process this is, from 0.
    ///
    /// ```
    /// # fn main() -> rig_nccl::Result<()> {
    /// use rig_nccl::World;
    /// let world = World::new(1, 4, "node1:29400".parse()?)?;
    /// // What a run prints once is the first process's to print.
    /// let prints = world.process() == 0;
    /// assert!(!prints);
    /// # Ok(())
    /// # }
    /// ```
    pub fn process(&self) -> u32 {
        self.process
    }

    /// How many processes there are.
    ///
    /// ```
    /// # fn main() -> rig_nccl::Result<()> {
    /// use rig_nccl::World;
    /// let world = World::new(1, 4, "node1:29400".parse()?)?;
    /// // Each process reads its part of a thousand files.
    /// let files = (0..1000).filter(|file| file % world.processes() == world.process());
    /// assert_eq!(files.count(), 250);
    /// # Ok(())
    /// # }
    /// ```
    pub fn processes(&self) -> u32 {
        self.processes
    }

    /// Where they meet; `None` for a process by itself.
    ///
    /// ```
    /// # fn main() -> rig_nccl::Result<()> {
    /// use rig_nccl::World;
    /// let world = World::new(1, 4, "node1:29400".parse()?)?;
    /// assert_eq!(world.place().map(ToString::to_string).as_deref(), Some("node1:29400"));
    /// assert_eq!(World::alone().place(), None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }

    /// The run's name, or nothing.
    pub(crate) fn job_name(&self) -> &str {
        &self.job
    }

    /// Which of the machine's `count` GPUs this process takes: all where it is alone there, else its share, even ones as far as
    /// they go. Where a launcher shows each process one GPU, it is that one.
    ///
    /// # Errors
    ///
    /// World where there is no GPU for this process.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig_nccl::Result<()> {
    /// use rig_nccl::World;
    /// // As torchrun sets them for the second of two processes on one machine.
    /// # // SAFETY: first thing in main, with no other thread.
    /// # unsafe {
    /// # std::env::set_var("MASTER_ADDR", "node1");
    /// # std::env::set_var("MASTER_PORT", "29400");
    /// std::env::set_var("RANK", "1");
    /// std::env::set_var("WORLD_SIZE", "2");
    /// std::env::set_var("LOCAL_RANK", "1");
    /// std::env::set_var("LOCAL_WORLD_SIZE", "2");
    /// # }
    /// let world = World::from_env()?;
    /// // The second half of the machine's eight GPUs.
    /// assert_eq!(world.share(8)?, 4..8);
    /// # Ok(())
    /// # }
    /// ```
    pub fn share(&self, count: usize) -> Result<Range<usize>> {
        let Some(local) = self.local.map(|local| local as usize) else {
            return if count == 0 { Err(Error::World("there is no GPU here".to_owned())) } else { Ok(0..count) };
        };
        let locals = self.locals.map(|locals| locals as usize).filter(|&locals| locals > local);
        let range = match locals {
            // The launcher has shared them out.
            _ if count == 1 => 0..1,
            Some(locals) => local * count / locals..(local + 1) * count / locals,
            None => local..(local + 1).min(count),
        };
        if range.is_empty() {
            return Err(Error::World(format!(
                "there is no GPU for process {} here: it is number {local} on its machine, which has {count}",
                self.process
            )));
        }
        Ok(range)
    }
}

/// Where the variables say to meet.
fn place(variable: &dyn Fn(&str) -> Option<String>) -> Result<Option<Place>> {
    if let Some(place) = variable(MEET) {
        return place.parse().map(Some);
    }
    let (Some(host), Some(port)) = (variable("MASTER_ADDR"), variable("MASTER_PORT")) else { return Ok(None) };
    let wrong = || Error::World(format!("MASTER_PORT is {port:?}, and no port with one after it"));
    let port = port.parse::<u16>().ok().and_then(|port| port.checked_add(1)).ok_or_else(wrong)?;
    Ok(Some(Place::Address { host, port }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<World> {
        World::read(&|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    fn meet() -> Place {
        Place::Address { host: "node1".into(), port: 29401 }
    }

    #[test]
    fn every_launchers_variables_say_who_this_is() {
        let cases: [(&[(&str, &str)], &str); 4] = [
            (&[("RIG_NCCL_PROCESS", "1"), ("RIG_NCCL_PROCESSES", "4"), ("RIG_NCCL_JOB", "a")], "a"),
            (&[("RANK", "1"), ("WORLD_SIZE", "4"), ("LOCAL_RANK", "1"), ("TORCHELASTIC_RUN_ID", "b")], "b"),
            (&[("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "4"), ("PMIX_NAMESPACE", "c")], "c"),
            (&[("PMI_RANK", "1"), ("PMI_SIZE", "4"), ("RIG_NCCL_JOB", "d"), ("PMI_JOBID", "e")], "d"),
        ];
        for (variables, job) in cases {
            let world = read(&[variables, &[("RIG_NCCL_MEET", "node1:29401")]].concat()).unwrap();
            assert_eq!((world.process(), world.processes(), world.place()), (1, 4, Some(&meet())));
            assert_eq!(world.job_name(), job);
        }
    }

    #[test]
    fn torchruns_address_serves_with_the_port_after_its_own() {
        let variables = [("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "node1"), ("MASTER_PORT", "29400")];
        assert_eq!(read(&variables).unwrap().place(), Some(&meet()));
        let last = [("RANK", "0"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "node1"), ("MASTER_PORT", "65535")];
        assert!(read(&last).unwrap_err().to_string().contains("MASTER_PORT"));
    }

    #[test]
    fn no_variables_are_a_process_by_itself_and_half_of_them_an_error_that_names_the_rest() {
        assert_eq!(read(&[]).unwrap(), World::alone());
        assert_eq!(read(&[("RANK", "0"), ("WORLD_SIZE", "1")]).unwrap().processes(), 1);
        let cases: [(&[(&str, &str)], &str); 5] = [
            (&[("RANK", "1")], "WORLD_SIZE"),
            (&[("WORLD_SIZE", "4")], "RIG_NCCL_PROCESS"),
            (&[("RANK", "one"), ("WORLD_SIZE", "4")], "RANK is \"one\""),
            (&[("RANK", "1"), ("WORLD_SIZE", "4")], "RIG_NCCL_MEET"),
            (&[("RANK", "4"), ("WORLD_SIZE", "4"), ("RIG_NCCL_MEET", "a:1")], "no process 4 of 4"),
        ];
        for (variables, says) in cases {
            let why = read(variables).unwrap_err().to_string();
            assert!(why.contains(says), "{why}");
        }
    }

    #[test]
    fn a_machines_gpus_are_shared_out_among_its_processes() {
        let of = |local, locals| World { local, locals, ..World::alone() };
        assert_eq!(of(None, None).share(8), Ok(0..8));
        assert_eq!(of(Some(3), Some(8)).share(8), Ok(3..4));
        assert_eq!(of(Some(1), Some(2)).share(8), Ok(4..8));
        assert_eq!(of(Some(0), Some(1)).share(8), Ok(0..8));
        assert_eq!(of(Some(2), Some(3)).share(8), Ok(5..8));
        assert_eq!(of(Some(5), None).share(8), Ok(5..6));
        assert_eq!(of(Some(5), Some(8)).share(1), Ok(0..1));
        assert!(of(Some(2), Some(3)).share(0).is_err() && of(None, None).share(0).is_err());
        assert!(of(Some(0), Some(3)).share(2).unwrap_err().to_string().contains("which has 2"));
    }
}
