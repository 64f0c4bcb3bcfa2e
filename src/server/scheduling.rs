//! How the kernel schedules the threads of a relay.

#[cfg(target_os = "linux")]
use preempt_rt::sched::{self, Pid, Scheduler, SchedulerParams};

/// From now on this thread and those it starts, when they are woken, let a running thread go on until that waits or its time slice is
/// over.
///
/// The ledger's writer wakes hundreds of threads one after the other. If each of them pushed it aside, the commit that the next
/// hundreds wait for would come later, and every change of thread costs. On an idle processor nobody waits for anybody. Another
/// policy than the usual one is the administrator's choice and stays; a refusal costs speed and nothing else.
pub fn push_nobody_aside() {
    #[cfg(target_os = "linux")]
    {
        let me = Pid::current_thread();
        if matches!(sched::get_scheduler(me), Ok(Scheduler::SCHED_NORMAL)) {
            let batch = Scheduler::SCHED_BATCH;
            if let Err(error) = sched::set_scheduler(me, batch, SchedulerParams { priority: 0 }) {
                tracing::debug!("the scheduling policy stays as it was: {error}");
            }
        }
    }
}
