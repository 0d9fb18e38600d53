package wire

import (
	"cmp"
	"slices"
	"time"

	"remshell/job"
)

// What a ledger holds was written by any user of the node, and what is told of it has to be
// what a helper may say.

// Truncate leaves out the entries that cannot be sent in so many bytes; 0: in as many as there may be. If there is no room for all, each user has the same share of it, and Fit returns
// the users who would need more. The states, which are of one job, may take half of the room.
func (m *LedgerListed) Truncate(most int) (cut []int) {
	if full := kindOf(m).MaxBody; most <= 0 || most > full {
		most = full
	}
	left, ranks := max(0, most-3*maxSentence)/2, maxOnNode
	room := left
	m.States = sendable(m.States, (*codec).rankState, &left, &ranks)
	var all []ledgerEntry
	for i := range m.Claims {
		all = append(all, measureEntry(&m.Claims[i], (*codec).claim, m.Claims[i].UID))
	}
	for i := range m.Tickets {
		all = append(all, measureEntry(&m.Tickets[i], (*codec).ticket, m.Tickets[i].UID))
	}
	fits, cut := fairShare(all, room+left)
	next := 0
	leftOut := func() bool { next++; return !fits[next-1] }
	m.Claims = slices.DeleteFunc(m.Claims, func(job.Claim) bool { return leftOut() })
	m.Tickets = slices.DeleteFunc(m.Tickets, func(job.Ticket) bool { return leftOut() })
	return cut
}

// A ledgerEntry is a claim or ticket as it would be sent.
type ledgerEntry struct {
	uid                       int
	size                      int // in bytes; 0: it cannot be sent
	claimedRanks, claimedCPUs int
}

func measureEntry[T any](p *T, each func(*codec, *T), uid int) ledgerEntry {
	out := codec{}
	each(&out, p)
	in := codec{reading: true, buf: out.buf}
	each(&in, new(T))
	if in.err != nil {
		return ledgerEntry{uid: uid}
	}
	return ledgerEntry{uid, len(out.buf), in.claimedRanks, in.claimedCPUs}
}

// fairShare reports which entries fit into so many bytes, and which users have some that do not. An entry comes the later, the
// more its user has before it: so nobody takes the room of others by many entries or large ones.
func fairShare(all []ledgerEntry, left int) (fits []bool, cut []int) {
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
	entries, seats, held := maxEntries, maxClaimedRanks, maxClaimedCPUs
	for _, i := range order {
		e := all[i]
		if fits[i] = e.size <= left && entries > 0 && e.claimedRanks <= seats && e.claimedCPUs <= held; !fits[i] {
			cut = append(cut, e.uid)
			continue
		}
		left, entries, seats, held = left-e.size, entries-1, seats-e.claimedRanks, held-e.claimedCPUs
	}
	slices.Sort(cut)
	return fits, slices.Compact(cut)
}

// Truncate leaves out the ticket at the head if it cannot be.
func (m *QueuePosition) Truncate() {
	left, one := maxPath+2*maxSentence, 1
	if len(sendable([]job.Ticket{m.Head}, (*codec).ticket, &left, &one)) == 0 {
		m.Head = job.Ticket{}
	}
}

// sendable returns what can be sent of a list, one element after the other.
func sendable[T any](list []T, each func(*codec, *T), left, entries *int) (fitting []T) {
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

// Truncate leaves out what the node cannot have.
func (m *Surveyed) Truncate() {
	truncateOccupancy(&m.Occupancy)
	truncateOccupancy(&m.OutsideOccupancy)
}

func truncateOccupancy(u *job.Occupancy) {
	u.Ranks, u.BoundRanks = min(u.Ranks, int(countRange.high)), min(u.BoundRanks, int(countRange.high))
	u.BusyCPUs = filterSorted(u.BusyCPUs, func(cpu int) bool { return cpuRange.contains(int64(cpu)) })
	u.SharedCPUs = filterSorted(u.SharedCPUs, func(cpu int) bool { return cpuRange.contains(int64(cpu)) })
	u.BusyGPUs = filterSorted(u.BusyGPUs, func(address string) bool { return len(address) <= busAddressLength.max })
	u.BusyGPUs = u.BusyGPUs[:min(len(u.BusyGPUs), maxGPUs)]
	if !uidRange.contains(int64(u.TopUID)) || !pidRange.contains(int64(u.TopPID)) || u.Since.UnixNano() < 0 && !u.Since.IsZero() {
		u.TopUser, u.TopUID, u.TopJob, u.TopPID, u.Since = "", 0, "", 0, time.Time{}
		u.Movable = false
	}
}

// filterSorted is the set of those that fit, in order.
func filterSorted[T int | string](list []T, fits func(T) bool) []T {
	kept := slices.DeleteFunc(slices.Clone(list), func(x T) bool { return !fits(x) })
	slices.Sort(kept)
	return slices.Compact(kept)
}
