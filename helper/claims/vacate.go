//go:build linux

package claims

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"remshell/job"
	"remshell/ledger"
	"remshell/wire"
)

/*
A suspended job may give its CPUs to others, and claims exactly these again when it is to go on (survive.md SV-29,
SV-30). Of each group there is one claim at every moment, since the new one is shown before the old one goes:

	claim with CPUs --GiveUp--> claim without, "suspended" --TakeBack--> claim with the same CPUs
	                                 |                                        |
	                                 '-- Look: who has them? nobody, or -- Taken: nothing is changed
*/
type vacancies struct {
	vacant   bool                  // what is claimed has no CPUs
	holdings map[string]wire.Claim // what the groups in held have claimed, and on which terms
}

// A Vacated is what came of a Vacancy.
type Vacated struct {
	Taken  string       // who has a CPU that is wanted; empty: nobody. Then nothing is changed
	Notice string       // what of it the ledger did not take
	Held   *ledger.Held // what the group that was asked for holds now; nil: nothing
}

// Vacate does something about the CPUs of all that the job claims here, and gives what came of it, with what
// the group of that name holds.
func (w *Worker) Vacate(what job.Vacancy, group string, give func(Vacated)) {
	w.do(func() {
		v := w.vacate(what)
		v.Held = w.held[group]
		give(v)
	})
}

func (w *Worker) vacate(what job.Vacancy) (v Vacated) {
	groups := slices.DeleteFunc(slices.Sorted(maps.Keys(w.held)), func(group string) bool {
		_, has := w.holdings[group]
		return !has || w.held[group].Resting() != ""
	})
	switch what {
	case job.GiveUp:
		w.vacant = true
		for _, group := range groups {
			v.Notice = cmp.Or(w.giveUp(group), v.Notice)
		}
	case job.Look:
		for _, group := range groups {
			taken, notice := w.whoHas(w.holdings[group])
			v.Taken, v.Notice = cmp.Or(v.Taken, taken), cmp.Or(v.Notice, notice)
		}
	case job.TakeBack:
		for i, group := range groups {
			taken, notice := w.takeBack(group)
			if v.Notice = cmp.Or(notice, v.Notice); taken == "" {
				continue
			}
			for _, group := range groups[:i] { // all of them, or none
				v.Notice = cmp.Or(w.giveUp(group), v.Notice)
			}
			v.Taken = taken
			return v
		}
		w.vacant = false
	default:
		v.Taken = fmt.Sprintf("this helper does not know how to %q", what)
	}
	return v
}

// giveUp lets others have the CPUs of a group.
func (w *Worker) giveUp(group string) (notice string) {
	held := w.held[group]
	if held.Suspended() {
		return ""
	}
	held, err := held.Vacate()
	w.held[group] = held
	if err != nil {
		return "its CPUs are still claimed: " + err.Error()
	}
	w.renote(group)
	return ""
}

// whoHas looks who has CPUs that a group is to claim again, as far as that can be read.
func (w *Worker) whoHas(t wire.Claim) (taken, notice string) {
	others, err := w.ledger.Others(nil)
	if err != nil {
		notice = "who claims what cannot be read: " + err.Error()
	}
	if err := conflict(t, t.Entry, others); err != nil {
		return err.Error() + holder(t.Entry, others), ""
	}
	return "", notice
}

// takeBack claims the CPUs of a group again. Where the ledger takes no claims others have none either: the
// job goes on without.
func (w *Worker) takeBack(group string) (taken, notice string) {
	held, t := w.held[group], w.holdings[group]
	if !held.Suspended() {
		return "", ""
	}
	var faster *takenError
	whole, err := w.ledger.Take(w.ctx, t.Entry, func(others ledger.Others) error {
		err := conflict(t, t.Entry, others)
		if errors.As(err, &faster) {
			err = &takenError{faster.reason + holder(t.Entry, others)}
		}
		return err
	})
	switch {
	case errors.As(err, &faster):
		return faster.reason, ""
	case err != nil:
		return "", "its CPUs are not claimed again: " + err.Error()
	}
	held.Release()
	w.held[group] = whole
	w.renote(group)
	return "", ""
}

// holder names a job that has what a claim wants, as far as that is known: of other users it is the one that has
// most.
func holder(mine job.Claim, others ledger.Others) string {
	wanted := make(map[int]bool)
	for _, r := range mine.Ranks {
		for _, cpu := range r.CPUs {
			wanted[cpu] = true
		}
	}
	for _, c := range others.Mine {
		for _, r := range c.Ranks {
			if c.Job != mine.Job && slices.ContainsFunc(r.CPUs, func(cpu int) bool { return wanted[cpu] }) {
				return fmt.Sprintf(" (job %s of %s)", c.Job, c.User)
			}
		}
	}
	if others.Rest.WhoJob != "" {
		return fmt.Sprintf(" (job %s of %s)", others.Rest.WhoJob, others.Rest.Who)
	}
	return ""
}
