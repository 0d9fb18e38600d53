package wire

import (
	"slices"
	"time"

	"remshell/job"
)

// What a ledger holds was written by any user of the node, and what is told of it has to be
// what a helper may say.

// Fit leaves out the entries that cannot be, and those for which there is no room.
func (m *Listed) Fit() {
	left, entries := kindOf(m).Most-2*maxSentence, maxEntries
	m.Claims = fit(m.Claims, (*codec).claim, &left, &entries)
	m.Tickets = fit(m.Tickets, (*codec).ticket, &left, &entries)
	ranks := maxOnNode
	m.States = fit(m.States, (*codec).rankState, &left, &ranks)
}

// Fit leaves out the ticket at the head if it cannot be.
func (m *Queued) Fit() {
	left, one := maxPath+2*maxSentence, 1
	if len(fit([]job.Ticket{m.Head}, (*codec).ticket, &left, &one)) == 0 {
		m.Head = job.Ticket{}
	}
}

// fit returns what can be sent of a list, one element after the other.
func fit[T any](list []T, each func(*codec, *T), left, entries *int) (fitting []T) {
	return fitOr(list, each, left, entries, func(T) {})
}

// fitOr is fit, and hands on what cannot be sent.
func fitOr[T any](list []T, each func(*codec, *T), left, entries *int, without func(T)) (fitting []T) {
	in, out := codec{reading: true}, codec{}
	for i := range list {
		out.buf = out.buf[:0]
		each(&out, &list[i])
		in.buf, in.err = out.buf, nil
		each(&in, new(T))
		if in.err != nil || len(out.buf) > *left || *entries == 0 {
			without(list[i])
			continue
		}
		*left, *entries = *left-len(out.buf), *entries-1
		fitting = append(fitting, list[i])
	}
	return fitting
}

// Fit leaves out what the node cannot have.
func (m *Surveyed) Fit() {
	fitUse(&m.Use)
	fitUse(&m.Beyond)
	fitUse(&m.Firm)
	m.fitWilling()
}

// fitWilling leaves out jobs that give way: what they hold counts like any then, since it would seem to be free.
func (m *Surveyed) fitWilling() {
	left, entries := kindOf(m).Most/2, job.MaxWilling
	m.Willing = fitOr(m.Willing, (*codec).willing, &left, &entries, func(w job.Willing) { m.Firm = m.Firm.And(w.Holds()) })
	if len(m.Willing) == 0 {
		m.Firm = job.Use{}
	}
	fitUse(&m.Firm)
}

func fitUse(u *job.Use) {
	u.Procs, u.Seated = min(u.Procs, int(aCount.high)), min(u.Seated, int(aCount.high))
	u.Busy = fitting(u.Busy, func(cpu int) bool { return aCPU.has(int64(cpu)) })
	u.Shared = fitting(u.Shared, func(cpu int) bool { return aCPU.has(int64(cpu)) })
	u.BusyGPUs = fitting(u.BusyGPUs, func(address string) bool { return len(address) <= aBusAddress.most })
	u.BusyGPUs = u.BusyGPUs[:min(len(u.BusyGPUs), maxGPUs)]
	if !aUID.has(int64(u.WhoUID)) || !aPID.has(int64(u.WhoPID)) || u.Since.UnixNano() < 0 && !u.Since.IsZero() {
		u.Who, u.WhoUID, u.WhoJob, u.WhoPID, u.Since = "", 0, "", 0, time.Time{}
		u.Movable = false
	}
}

// fitting is the set of those that fit, in order.
func fitting[T int | string](list []T, fits func(T) bool) []T {
	kept := slices.DeleteFunc(slices.Clone(list), func(x T) bool { return !fits(x) })
	slices.Sort(kept)
	return slices.Compact(kept)
}
