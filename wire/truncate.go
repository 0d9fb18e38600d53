package wire

import (
	"cmp"
	"slices"
	"time"

	"remshell/job"
)

// The contents of a ledger were written by any users of the node. These functions cut them to
// what a helper may send.

// Truncate removes entries so that the message has at most maxBytes bytes. If maxBytes is 0, the limit is the
// maximum size of the message. If not all entries fit, each user gets the same share, and Truncate returns the
// users whose entries were removed. States, which belong to one job, may take half of the size.
func (m *LedgerListed) Truncate(maxBytes int) (cut []int) {
	if full := kindOf(m).MaxBody; maxBytes <= 0 || maxBytes > full {
		maxBytes = full
	}
	left, ranks := max(0, maxBytes-3*maxSentence-maxNodeSettings)/2, MaxOnNode
	states := left
	m.States = sendable(m.States, (*Codec).RankState, &left, &ranks)
	var all []ledgerEntry
	for i := range m.Claims {
		all = append(all, measureEntry(&m.Claims[i], (*Codec).claim, m.Claims[i].UID))
	}
	for i := range m.Tickets {
		all = append(all, measureEntry(&m.Tickets[i], (*Codec).ticket, m.Tickets[i].UID))
	}
	fits, cut := fairShare(all, states+left)
	next := 0
	removed := func() bool { next++; return !fits[next-1] }
	m.Claims = slices.DeleteFunc(m.Claims, func(job.Claim) bool { return removed() })
	m.Tickets = slices.DeleteFunc(m.Tickets, func(job.Ticket) bool { return removed() })
	return cut
}

// A ledgerEntry is the size of an encoded claim or ticket, and the user to whom it belongs.
type ledgerEntry struct {
	uid                       int
	size                      int // in bytes; 0: it cannot be sent
	claimedRanks, claimedCPUs int
}

// measureEntry returns the encoded size of an entry of user uid. The size is 0 if the entry contains invalid
// values.
func measureEntry[T any](p *T, element func(*Codec, *T), uid int) ledgerEntry {
	out := Codec{}
	element(&out, p)
	in := Codec{Reading: true, buf: out.buf}
	element(&in, new(T))
	if in.err != nil {
		return ledgerEntry{uid: uid}
	}
	return ledgerEntry{uid, len(out.buf), in.claimedRanks, in.claimedCPUs}
}

// fairShare reports which entries fit into size bytes, and which users have entries that do not fit. For each entry, it
// adds up the sizes of the entries of the same user up to this entry. Entries with the smallest sums are taken first,
// so no user can displace others by having many or large entries.
func fairShare(all []ledgerEntry, size int) (fits []bool, cut []int) {
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
	entries, ranks, cpus := maxEntries, maxClaimedRanks, maxClaimedCPUs
	for _, i := range order {
		e := all[i]
		if fits[i] = e.size <= size && entries > 0 && e.claimedRanks <= ranks && e.claimedCPUs <= cpus; !fits[i] {
			cut = append(cut, e.uid)
			continue
		}
		size, entries, ranks, cpus = size-e.size, entries-1, ranks-e.claimedRanks, cpus-e.claimedCPUs
	}
	slices.Sort(cut)
	return fits, slices.Compact(cut)
}

// Truncate removes the ticket at the head of the queue from the message if that ticket is not valid.
func (m *QueuePosition) Truncate() {
	left, one := maxPath+2*maxSentence, 1
	if len(sendable([]job.Ticket{m.Head}, (*Codec).ticket, &left, &one)) == 0 {
		m.Head = job.Ticket{}
	}
}

// sendable returns the elements of list that have valid values and for which enough space is left. bytes and entries
// are the free space in bytes and in entries. sendable subtracts what the returned elements take.
func sendable[T any](list []T, element func(*Codec, *T), bytes, entries *int) (fitting []T) {
	in, out := Codec{Reading: true}, Codec{}
	for i := range list {
		out.buf = out.buf[:0]
		element(&out, &list[i])
		in.buf, in.err = out.buf, nil
		element(&in, new(T))
		if in.err != nil || len(out.buf) > *bytes || *entries == 0 {
			continue
		}
		*bytes, *entries = *bytes-len(out.buf), *entries-1
		fitting = append(fitting, list[i])
	}
	return fitting
}

// Truncate makes the message valid: it lowers numbers that exceed the limits of the message, and removes other values
// that exceed them.
func (m *Surveyed) Truncate() {
	truncateOccupancy(&m.Occupancy)
	truncateOccupancy(&m.OutsideOccupancy)
}

func truncateOccupancy(u *job.Occupancy) {
	u.Ranks, u.BoundRanks = min(u.Ranks, int(CountRange.High)), min(u.BoundRanks, int(CountRange.High))
	u.BusyCPUs = filterSorted(u.BusyCPUs, func(cpu int) bool { return cpuRange.contains(int64(cpu)) })
	u.SharedCPUs = filterSorted(u.SharedCPUs, func(cpu int) bool { return cpuRange.contains(int64(cpu)) })
	left := maxGangCPUs
	u.GangCPUs = slices.DeleteFunc(u.GangCPUs, func(g job.GangCPUs) bool { // its CPUs then count as those of a job that is no gang
		if len(g.CPUs) > left || len(g.Job) > maxWord || slices.ContainsFunc(g.CPUs, func(cpu int) bool { return !cpuRange.contains(int64(cpu)) }) {
			return true
		}
		left -= len(g.CPUs)
		return false
	})
	u.GangCPUs = u.GangCPUs[:min(len(u.GangCPUs), maxGangs)]
	u.GangMemory = min(u.GangMemory, BytesRange.High)
	u.BusyGPUs = filterSorted(u.BusyGPUs, func(address string) bool { return len(address) <= busAddressLength.Max })
	u.BusyGPUs = u.BusyGPUs[:min(len(u.BusyGPUs), maxGPUs)]
	if !uidRange.contains(int64(u.TopUID)) || !pidRange.contains(int64(u.TopPID)) || u.Since.UnixNano() < 0 && !u.Since.IsZero() {
		u.TopUser, u.TopUID, u.TopJob, u.TopPID, u.Since = "", 0, "", 0, time.Time{}
		u.Movable = false
	}
}

// filterSorted returns the elements of list for which fits returns true, sorted and without duplicates.
func filterSorted[T int | string](list []T, fits func(T) bool) []T {
	kept := slices.DeleteFunc(slices.Clone(list), func(x T) bool { return !fits(x) })
	slices.Sort(kept)
	return slices.Compact(kept)
}
