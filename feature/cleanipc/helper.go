//go:build linux

package cleanipc

import (
	"time"

	"remshell/helper"
	"remshell/helper/lifecycle"
	"remshell/helper/sysvipc"
	"remshell/job"
	"remshell/wire"
)

func init() { helper.Register(helper.Feature{Name: "clean-ipc", Attach: attachHelper}) }

// attachHelper makes the session track the job's processes and shared memory on this node. At the end of the job, the
// session frees the shared memory and semaphores that remain.
func attachHelper(s *helper.Session) {
	var tracker *sysvipc.Tracker // nil: nothing is tracked, or all is freed
	s.Hooks.JobBegins.Add(func(m *wire.Prepare) {
		policy, has := wire.SettingOf[*Policy](m.Settings)
		if tracker == nil && !(has && policy.When == never) {
			tracker = sysvipc.NewTracker(has && policy.When == always)
		}
	})
	s.Hooks.OrphanReaped.Add(func(e lifecycle.ChildEnded, owner int) {
		tracker.NoteEnded(sysvipc.Process{PID: e.PID, Rank: owner, Started: e.Started}, e.At)
	})
	s.Hooks.RankReaped.Add(func(r *helper.Rank, started, at time.Time) {
		tracker.NoteEnded(sysvipc.Process{PID: r.Child.PID, Rank: r.Number, Started: started, Leader: true}, at)
		if r.Exit.Status() != 0 {
			tracker.Scan(s.JobProcesses)
		}
	})
	s.Hooks.RankEnded.Add(func(r *helper.Rank) {
		tracker.NoteRankEnd(r.Number, r.Exit.Status() == 0 && !r.Exit.ToldToEnd && r.Exit.PMI != job.PMIOpen && r.Exit.PMI != job.PMIAborted)
	})
	s.Hooks.Terminating.Add(func() { tracker.Scan(s.JobProcesses) })

	// take returns the tracker, once. If processes may stay, it returns nil, since they may still use the memory.
	take := func() *sysvipc.Tracker {
		left := tracker
		if tracker = nil; s.Lifecycle.LeavesProcesses() {
			return nil
		}
		return left
	}
	s.Hooks.Drained.Add(func() func() {
		left := take()
		return func() {
			if o := left.Free(); len(o.Freed) > 0 || o.Semaphores > 0 {
				s.Send(&IPCCleaned{Leftovers: o.Freed, Semaphores: o.Semaphores})
			}
		}
	})
	s.Hooks.Closing.Add(func() { take().Free() }) // in case the job ended without Drained, since mpiexec is gone
}
