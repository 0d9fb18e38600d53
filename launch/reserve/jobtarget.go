package reserve

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"remshell/job"
	"remshell/usererr"
)

// A jobTarget is the job to which a control request, signal or eviction applies. Jobs of several users can have
// the same ID, so it records the job's user on each node.
type jobTarget struct {
	job.JobRef
	uids []int // user of the job's claims on each page; -1 if the page has none
}

// uidOn returns the user ID of the job's claims in one node's ledger listing, or -1 if the listing has no claim of the
// job. page is the index of the listing, as in ledgerEntries.
func (t jobTarget) uidOn(page int) int {
	if page >= len(t.uids) {
		return -1
	}
	return t.uids[page]
}

// isClaimOf reports whether c belongs to the job. page is the index of the ledger listing that contains c.
func (t jobTarget) isClaimOf(page int, c job.Claim) bool {
	return c.Job == t.Job && c.UID == t.uidOn(page)
}

// isFound reports whether the ledger listing of any node contains the job.
func (t jobTarget) isFound() bool {
	return slices.ContainsFunc(t.uids, func(uid int) bool { return uid >= 0 })
}

// A ledgerEntry is a claim or a ticket of a job. A claim records which CPUs of a node the job has, and a
// ticket records its place in the queue.
type ledgerEntry struct {
	page    int
	node    string
	job     job.ID
	since   time.Time
	command string
	uid     int
	user    string // by name, or by number
	ours    bool
}

// ledgerEntries returns the claims on all nodes and, if tickets is true, the tickets (places in the queue). pages
// contains the ledger listing of each node. If ref names a user, ledgerEntries returns only that user's entries.
func ledgerEntries(pages []job.LedgerListing, ref job.JobRef, tickets bool) (all []ledgerEntry) {
	for i, p := range pages {
		add := func(id job.ID, uid int, user, command string, since time.Time) {
			if ref.MatchesUser(user, uid) {
				all = append(all, ledgerEntry{i, p.Node, id, since, command, uid, cmp.Or(user, strconv.Itoa(uid)), uid == p.ReaderUID})
			}
		}
		for _, c := range p.Claims {
			add(c.Job, c.UID, c.User, c.Command, c.Since)
		}
		if tickets {
			for _, t := range p.Tickets {
				add(t.Job, t.UID, t.User, t.Summary, t.Since)
			}
		}
	}
	return all
}

// isQueued reports whether a job only waits in the queue: it has tickets but no claims.
func isQueued(pages []job.LedgerListing, t jobTarget) (queued bool) {
	for i, p := range pages {
		if slices.ContainsFunc(p.Claims, func(c job.Claim) bool { return t.isClaimOf(i, c) }) {
			return false
		}
		queued = queued || slices.ContainsFunc(p.Tickets, func(k job.Ticket) bool { return k.Job == t.Job && k.UID == t.uidOn(i) })
	}
	return queued
}

// ownEntries selects the claims and tickets that belong to the current user.
func ownEntries(all []ledgerEntry) []ledgerEntry {
	return slices.DeleteFunc(slices.Clone(all), func(e ledgerEntry) bool { return !e.ours })
}

// resolveName replaces the name in ref with the ID of the job that it refers to. The name is a job ID, an
// unambiguous prefix of one, or NewestJob. If ref names no user, resolveName prefers the current user's jobs, and
// never resolves NewestJob to a job of another user. If no job matches, it returns ref unchanged or, for
// NewestJob, an empty ID. If several jobs match, the error is an *ambiguousError.
func resolveName(pages []job.LedgerListing, ref job.JobRef) (job.JobRef, error) {
	all := ledgerEntries(pages, ref, true)
	first := all
	if ref.User == "" {
		first = ownEntries(all)
	}
	if ref.Job == job.NewestJob {
		ref.Job = newestJob(first)
		return ref, nil
	}
	for _, among := range [][]ledgerEntry{first, all} {
		named := jobsNamed(among, ref.Job)
		switch {
		case len(named) == 1:
			ref.Job = named[0].job
			return ref, nil
		case len(named) > 1:
			return ref, newAmbiguousError(ref, named)
		}
	}
	return ref, nil
}

// jobsNamed returns the jobs whose ID begins with name, one entry for each. If an ID is equal to name, it returns
// only that job.
func jobsNamed(entries []ledgerEntry, name job.ID) (jobs []ledgerEntry) {
	seen := make(map[job.ID]bool)
	for _, e := range entries {
		if e.job == name {
			return []ledgerEntry{e}
		}
		if strings.HasPrefix(string(e.job), string(name)) && !seen[e.job] {
			seen[e.job] = true
			jobs = append(jobs, e)
		}
	}
	return jobs
}

// newestJob returns the ID of the job that began last, or "" if there are no entries. A job begins at the
// time of its earliest entry; later entries come from spawned ranks.
func newestJob(entries []ledgerEntry) (newest job.ID) {
	began := make(map[job.ID]time.Time)
	for _, e := range entries {
		if t, known := began[e.job]; !known || e.since.Before(t) {
			began[e.job] = e.since
		}
	}
	for _, e := range entries {
		if newest == "" || began[e.job].After(began[newest]) {
			newest = e.job
		}
	}
	return newest
}

// An ambiguousError is returned when a name is the prefix of several job IDs.
type ambiguousError struct {
	text string
	jobs []string // one line for each job
}

func (a *ambiguousError) Error() string { return a.text }

// Hint returns advice for the user.
func (a *ambiguousError) Hint() string { return "write more characters of the job ID" }

// Reasons returns one line for each job that matches the name.
func (a *ambiguousError) Reasons() []string { return a.jobs }

// maxListedJobs is the largest number of jobs that an ambiguousError lists.
const maxListedJobs = 8

func newAmbiguousError(ref job.JobRef, named []ledgerEntry) *ambiguousError {
	a := &ambiguousError{text: fmt.Sprintf("the IDs of %d jobs begin with %s", len(named), ref)}
	slices.SortFunc(named, func(x, y ledgerEntry) int { return cmp.Or(x.since.Compare(y.since), cmp.Compare(x.job, y.job)) })
	for _, e := range named[:min(len(named), maxListedJobs)] {
		a.jobs = append(a.jobs, fmt.Sprintf("%s  %s  %s", e.job, e.user, e.command))
	}
	if more := len(named) - maxListedJobs; more > 0 {
		a.jobs = append(a.jobs, fmt.Sprintf("and %d more", more))
	}
	return a
}

// findJob finds the job with the ID in ref on all nodes. If tickets is true, it also finds a job that has no claims but
// waits in the queue. If ref names no user, findJob prefers the current user's job. If that user has none, it takes the
// job of the only other user who has one. If several other users have jobs with this ID, it returns the error
// ambiguous.
func findJob(pages []job.LedgerListing, ref job.JobRef, tickets bool) (t jobTarget, ambiguous *usererr.Error) {
	t = jobTarget{ref, slices.Repeat([]int{-1}, len(pages))}
	all := slices.DeleteFunc(ledgerEntries(pages, ref, tickets), func(e ledgerEntry) bool { return e.job != ref.Job })
	if ref.User == "" {
		if ours := ownEntries(all); len(ours) > 0 {
			all = ours
		} else if ambiguous = severalUsersError(ref.Job, all); ambiguous != nil {
			return t, ambiguous
		}
	}
	for _, e := range all {
		t.uids[e.page] = e.uid
	}
	return t, nil
}

// resolveJob finds the job to which a name refers. If tickets is false, it considers tickets (places in the queue) only
// if no claims match.
func resolveJob(pages []job.LedgerListing, ref job.JobRef, tickets bool) (t jobTarget, err error) {
	if ref, err = resolveName(pages, ref); err != nil {
		return t, err
	}
	t, several := findJob(pages, ref, tickets)
	if several == nil && !t.isFound() {
		t, several = findJob(pages, ref, true)
	}
	if several != nil {
		return t, several
	}
	return t, nil
}

// severalUsersError returns an error if the given entries, which all have the same job ID, belong to several users.
// Otherwise it returns nil.
func severalUsersError(id job.ID, all []ledgerEntry) *usererr.Error {
	nodes := make(map[string][]string)
	var users []string
	for _, e := range all {
		if !slices.Contains(users, e.user) {
			users = append(users, e.user)
		}
		if !slices.Contains(nodes[e.user], e.node) {
			nodes[e.user] = append(nodes[e.user], e.node)
		}
	}
	if len(users) < 2 {
		return nil
	}
	slices.Sort(users)
	const most = 4
	var claims, refs []string
	for _, user := range users[:min(len(users), most)] {
		claims = append(claims, user+" on "+strings.Join(nodes[user], ","))
		refs = append(refs, job.JobRef{Job: id, User: user}.String())
	}
	if more := len(users) - most; more > 0 {
		claims = append(claims, fmt.Sprintf("%d more", more))
	}
	return &usererr.Error{Text: fmt.Sprintf("%d users have a job with the ID %s: %s", len(users), id, strings.Join(claims, "; ")),
		Remedy: "add the user to the ID: " + strings.Join(refs, " or ")}
}
