package launch

import (
	"fmt"
	"slices"

	"remshell/fault"
	"remshell/job"
	"remshell/launch/node"
	"remshell/launch/reserve"
	"remshell/launch/supervise"
	"remshell/wire"
)

/*
Spares are nodes of the job that are claimed for another attempt (survive.md SV-7). One that has lent its CPUs to others
(--suspend=free, SV-29) is a spare still, of which nothing is known to be free; one that does not get them back is none any more.

	spare --GiveUp--> lent --TakeBack--> spare
	                            '------> lost: somebody has them
*/
type lent struct {
	cpus int           // that it claimed
	open []job.Vacancy // what it has not answered yet, in order
	told string        // what of it the ledger did not take; empty: nothing
}

// spareLost takes the news that a connection has ended, if it was that of a spare.
func (f *fleet) spareLost(e node.Disconnected) bool {
	is := f.spareAt(e.From) >= 0
	if is {
		f.forgetSpare(e.From, fault.Reason(e.Err))
	}
	return is
}

// forgetSpare does without a spare from now on.
func (f *fleet) forgetSpare(n *node.Node, why string) {
	f.spares = slices.DeleteFunc(slices.Clone(f.spares), func(s reserve.Kept) bool { return s.Node == n })
	delete(f.lent, n)
	f.env.Say(fmt.Sprintf("spare %s is lost (%s)", n.Name(), why))
}

// spareAt finds a node among the spares; below 0: it is none.
func (f *fleet) spareAt(n *node.Node) int {
	return slices.IndexFunc(f.spares, func(s reserve.Kept) bool { return s.Node == n })
}

// withoutSpares is the job's request for who shall not use them: its own spawns.
func (f *fleet) withoutSpares() job.Request {
	return reserve.Without(f.req, func(def job.NodeDef) bool {
		return slices.ContainsFunc(f.spares, func(s reserve.Kept) bool { return s.Name() == def.Name })
	})
}

// vacateSpares has spares give up their CPUs, or take them back. What is claimed for a move stays.
func (f *fleet) vacateSpares(what job.Vacancy) {
	for i := range f.spares {
		s := &f.spares[i]
		if f.moving.claims(s.Node) {
			continue
		}
		l := f.lent[s.Node]
		if l == nil {
			l = &lent{cpus: s.CPUs}
			f.lent[s.Node] = l
		}
		l.open = append(l.open, what)
		s.CPUs = 0
		s.Send(&wire.Vacate{What: what})
	}
	for _, news := range f.sparesAnswered() { // there may be none any more
		f.events.Put(news)
	}
}

// spareSaid takes in what a node says that has no part in the job, if it is a spare that answers.
func (f *fleet) spareSaid(from *node.Node, m wire.Message) []supervise.Event {
	answer, is := m.(*wire.Vacated)
	l := f.lent[from]
	if !is || l == nil || len(l.open) == 0 {
		return nil
	}
	what := l.open[0]
	l.open = l.open[1:]
	switch {
	case what == job.TakeBack && answer.Taken != "": // what it is to claim others have
		f.forgetSpare(from, answer.Taken)
		from.Send(&wire.Bye{})
		go from.Close()
	case what == job.TakeBack:
		f.regain(from, l)
		if answer.Notice != "" {
			f.env.Say(fmt.Sprintf("spare %s: %s", from.Name(), answer.Notice))
		}
	case answer.Notice != "":
		l.told = from.Name() + ": " + answer.Notice
	}
	return f.sparesAnswered()
}

// regain counts what a spare claims again, if it is not to give that up once more.
func (f *fleet) regain(n *node.Node, l *lent) {
	if i := f.spareAt(n); i >= 0 && len(l.open) == 0 {
		delete(f.lent, n)
		f.spares[i].CPUs = l.cpus
	}
}

// sparesAnswered is the news that all spares have answered, if they have.
func (f *fleet) sparesAnswered() []supervise.Event {
	var notices []string
	for _, l := range f.lent {
		if len(l.open) > 0 {
			return nil
		}
		if l.told != "" {
			notices = append(notices, l.told)
		}
	}
	return []supervise.Event{supervise.SparesVacated{Notices: notices}}
}
