//go:build linux

package gang

import (
	"os"
	"reflect"
	"time"

	"remshell/config"
	"remshell/helper"
	"remshell/helper/probe"
	"remshell/helper/rank"
	"remshell/job"
	"remshell/wire"
)

func init() { helper.Register(helper.Feature{Name: "gang", Attach: attachHelper}) }

// A nodeTurns stops and continues the ranks on one node, for a job that takes turns with other jobs on shared CPUs.
// Only the session's goroutine uses it.
type nodeTurns struct {
	session  *helper.Session
	own      job.Key
	schedule schedule
	report   Competition // as it is now
	sent     *Competition
	started  bool        // ranks are started, so reports may be sent
	lookedAt time.Time   // when the run-time settings were read
	timer    *time.Timer // nil: not set yet
}

func attachHelper(s *helper.Session) {
	t := &nodeTurns{session: s}
	s.Hooks.JobBegins.Add(t.begin)
	s.Hooks.GroupStarts.Add(func(g *helper.Group) *rank.Error {
		if t.isGang() {
			t.started = true
			t.apply()
		}
		return nil
	})
	s.Hooks.Closing.Add(func() {
		if t.timer != nil {
			t.timer.Stop()
		}
	})
	helper.Handle(s, func(m *Competitors) {
		if t.isGang() {
			t.schedule.anywhere, t.schedule.over = m.Parties, t.schedule.over || m.Over
			t.apply()
		}
	})
}

func (t *nodeTurns) isGang() bool { return t.schedule.gang.Parties > 0 }

// begin begins to watch which jobs claim CPUs on the node. This job must already have published its own claim.
func (t *nodeTurns) begin(m *wire.Prepare) {
	gang := m.Claim.Entry.Gang
	if gang == nil || t.isGang() {
		return
	}
	t.own = job.Key{Job: m.Job, UID: os.Geteuid()}
	t.schedule = schedule{gang: *gang, claimed: t.now()}
	t.session.WatchJobs(m.Claim.Ledger, func(all []job.Claim) {
		var parties []int
		parties, t.report.Jobs = competition(all, t.own)
		t.schedule.noteClaims(parties)
		t.apply()
	}, func(err error) {
		t.session.Send(&wire.Log{Warning: true, Text: "the host no longer detects other jobs that share its CPUs: " + err.Error()})
		t.schedule.noteClaims(t.schedule.here)
		t.apply()
	})
}

func (t *nodeTurns) now() time.Time {
	if now := t.session.System().Now; now != nil {
		return now()
	}
	return time.Now()
}

// apply stops or continues the ranks, as the schedule requires, and reports changes to mpiexec.
func (t *nodeTurns) apply() {
	now := t.now()
	t.readSetting(now)
	hold, next := t.schedule.decide(now, t.report.Held)
	if t.report.Held != hold {
		t.report.Held = hold
		t.session.Hold(job.HoldGang, hold)
	}
	t.report.Parties = t.schedule.here
	t.report.Slice, _ = t.schedule.setting.At(now, t.schedule.gang.Slice)
	if t.started && t.schedule.looked && (t.sent == nil || !reflect.DeepEqual(*t.sent, t.report)) {
		sent := t.report
		t.sent = &sent
		t.session.Send(&sent)
	}
	if next.IsZero() {
		return
	}
	if wait := max(0, next.Sub(now)); t.timer == nil {
		t.timer = time.AfterFunc(wait, func() { t.session.Post(t.apply) })
	} else {
		t.timer.Reset(wait)
	}
}

// readSetting reads the slice length that root has set on this node at run time (mpijob gang), unless it was read less
// than settingAge ago. If the setting cannot be read, the last known length remains in use.
func (t *nodeTurns) readSetting(now time.Time) {
	if age := now.Sub(t.lookedAt); age >= 0 && age < settingAge {
		return
	}
	t.lookedAt = now
	if s, err := probe.ReadState(config.StateFile); err == nil {
		t.schedule.setting = s.Slice
	}
}

// settingAge is the time after which the slice length is read again. Between two readings, apply uses the last known
// length.
const settingAge = clockCheck
