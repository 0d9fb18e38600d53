package wire

import (
	"cmp"
	"slices"
	"time"

	"remshell/job"
)

// What a ledger holds was written by any user of the node, and what is told of it has to be
// what a helper may say.

// Fit leaves out the entries that cannot be sent in so many bytes; 0: in as many as there may be. If there is no room for all, each user has the same share of it, and Fit returns
// the users who would need more. The states, which are of one job, may take half of the room.
func (m *Listed) Fit(most int) (cut []int) {
	if full := kindOf(m).Most; most <= 0 || most > full {
		most = full
	}
	left, ranks := max(0, most-3*maxSentence)/2, maxOnNode
	room := left
	m.States = fit(m.States, (*codec).rankState, &left, &ranks)
	var all []entry
	for i := range m.Claims {
		all = append(all, measure(&m.Claims[i], (*codec).claim, m.Claims[i].UID))
	}
	for i := range m.Tickets {
		all = append(all, measure(&m.Tickets[i], (*codec).ticket, m.Tickets[i].UID))
	}
	fits, cut := share(all, room+left)
	next := 0
	leftOut := func() bool { next++; return !fits[next-1] }
	m.Claims = slices.DeleteFunc(m.Claims, func(job.Claim) bool { return leftOut() })
	m.Tickets = slices.DeleteFunc(m.Tickets, func(job.Ticket) bool { return leftOut() })
	return cut
}

// An entry is a claim or ticket as it would be sent.
type entry struct {
	uid         int
	size        int // in bytes; 0: it cannot be sent
	seats, held int
}

func measure[T any](p *T, each func(*codec, *T), uid int) entry {
	out := codec{}
	each(&out, p)
	in := codec{reading: true, buf: out.buf}
	each(&in, new(T))
	if in.err != nil {
		return entry{uid: uid}
	}
	return entry{uid, len(out.buf), in.seats, in.held}
}

// share reports which entries fit into so many bytes, and which users have some that do not. An entry comes the later, the
// more its user has before it: so nobody takes the room of others by many entries or large ones.
func share(all []entry, left int) (fits []bool, cut []int) {
	fits = make([]bool, len(all))
	sum, before := make(map[int]int), make([]int, len(all)) // by user, by entry
	var order []int
	for i, e := range all {
		if e.size > 0 {
			sum[e.uid] += e.size
			before[i] = sum[e.uid]
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(before[i], before[j]) })
	entries, seats, held := maxEntries, maxSeats, maxHeld
	for _, i := range order {
		e := all[i]
		if fits[i] = e.size <= left && entries > 0 && e.seats <= seats && e.held <= held; !fits[i] {
			cut = append(cut, e.uid)
			continue
		}
		left, entries, seats, held = left-e.size, entries-1, seats-e.seats, held-e.held
	}
	slices.Sort(cut)
	return fits, slices.Compact(cut)
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
	in, out := codec{reading: true}, codec{}
	for i := range list {
		out.buf = out.buf[:0]
		each(&out, &list[i])
		in.buf, in.err = out.buf, nil
		each(&in, new(T))
		if in.err != nil || len(out.buf) > *left || *entries == 0 {
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
