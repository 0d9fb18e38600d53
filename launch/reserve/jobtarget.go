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

// A jobTarget is the job that is asked, signalled or ended: on each node that has it, that of one user. Everybody can claim CPUs
// under the ID of another user's job, and would answer in its place.
type jobTarget struct {
	job.JobRef
	uids []int // of the claims, by page; -1: the job has none there
}

// uidOn is the user of the job's claims on a page; -1: the job has none there, or the page came later.
func (t jobTarget) uidOn(page int) int {
	if page >= len(t.uids) {
		return -1
	}
	return t.uids[page]
}

// isClaimOf reports whether a claim on a page is one of the job.
func (t jobTarget) isClaimOf(page int, c job.Claim) bool {
	return c.Job == t.Job && c.UID == t.uidOn(page)
}

// isFound reports whether the job is on some page.
func (t jobTarget) isFound() bool {
	return slices.ContainsFunc(t.uids, func(uid int) bool { return uid >= 0 })
}

// A ledgerEntry is one of a job in the ledger of a node.
type ledgerEntry struct {
	page  int
	node  string
	job   job.ID
	since time.Time
	what  string // its command
	uid   int
	user  string // by name, or by number
	ours  bool
}

// ledgerEntries are those in the ledgers, if a user is named only his; with tickets also of jobs that wait.
func ledgerEntries(pages []job.LedgerListing, ref job.JobRef, tickets bool) (all []ledgerEntry) {
	for i, p := range pages {
		add := func(id job.ID, uid int, user, what string, since time.Time) {
			if ref.MatchesUser(user, uid) {
				all = append(all, ledgerEntry{i, p.Node, id, since, what, uid, cmp.Or(user, strconv.Itoa(uid)), uid == p.ReaderUID})
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

// isQueued reports whether a job waits in a queue and runs nowhere.
func isQueued(pages []job.LedgerListing, t jobTarget) (queued bool) {
	for i, p := range pages {
		if slices.ContainsFunc(p.Claims, func(c job.Claim) bool { return t.isClaimOf(i, c) }) {
			return false
		}
		queued = queued || slices.ContainsFunc(p.Tickets, func(k job.Ticket) bool { return k.Job == t.Job && k.UID == t.uidOn(i) })
	}
	return queued
}

// ownEntries are those of the user who asks.
func ownEntries(all []ledgerEntry) []ledgerEntry {
	return slices.DeleteFunc(slices.Clone(all), func(e ledgerEntry) bool { return !e.ours })
}

// resolveName finds the ID that the name of a job stands for: an ID stands for itself, LastJob for the youngest that runs or waits, and the front of an
// ID for that. If no user is named, jobs of our own are meant, or else those of all users, but by LastJob. The ID is empty if
// there is no last job, and the name itself if it is none of these. The error is that it is the front of several IDs.
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

// jobsNamed returns an entry of each job with this name, which is an ID or the front of one. A whole ID is not the front of others.
func jobsNamed(among []ledgerEntry, name job.ID) (jobs []ledgerEntry) {
	seen := make(map[job.ID]bool)
	for _, e := range among {
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

// newestJob is the ID of the job that began last; empty: there is none. A job began with the first of its entries: what it has spawned
// came later.
func newestJob(among []ledgerEntry) (last job.ID) {
	began := make(map[job.ID]time.Time)
	for _, e := range among {
		if t, known := began[e.job]; !known || e.since.Before(t) {
			began[e.job] = e.since
		}
	}
	for _, e := range among {
		if last == "" || began[e.job].After(began[last]) {
			last = e.job
		}
	}
	return last
}

// ambiguousError is the error that a name of a job is the front of several IDs.
type ambiguousError struct {
	text string
	jobs []string // a line for each
}

func (a *ambiguousError) Error() string { return a.text }

// Hint is what to do about it.
func (a *ambiguousError) Hint() string { return "write more of the name" }

// Reasons are the jobs, for a list.
func (a *ambiguousError) Reasons() []string { return a.jobs }

// maxListedJobs is how many jobs are listed, of those that a name may mean.
const maxListedJobs = 8

func newAmbiguousError(ref job.JobRef, named []ledgerEntry) *ambiguousError {
	a := &ambiguousError{text: fmt.Sprintf("%d jobs begin with %s", len(named), ref)}
	slices.SortFunc(named, func(x, y ledgerEntry) int { return cmp.Or(x.since.Compare(y.since), cmp.Compare(x.job, y.job)) })
	for _, e := range named[:min(len(named), maxListedJobs)] {
		a.jobs = append(a.jobs, fmt.Sprintf("%s  %s  %s", e.job, e.user, e.what))
	}
	if more := len(named) - maxListedJobs; more > 0 {
		a.jobs = append(a.jobs, fmt.Sprintf("and %d more", more))
	}
	return a
}

// findJob finds the job with an ID on all nodes. If no user is named, a job of our own is meant, or else that of the only user who
// claims the ID. If there are several, none is.
func findJob(pages []job.LedgerListing, ref job.JobRef, tickets bool) (t jobTarget, several *usererr.Error) {
	t = jobTarget{ref, slices.Repeat([]int{-1}, len(pages))}
	all := slices.DeleteFunc(ledgerEntries(pages, ref, tickets), func(e ledgerEntry) bool { return e.job != ref.Job })
	if ref.User == "" {
		if ours := ownEntries(all); len(ours) > 0 {
			all = ours
		} else if several = severalUsersError(ref.Job, all); several != nil {
			return t, several
		}
	}
	for _, e := range all {
		t.uids[e.page] = e.uid
	}
	return t, nil
}

// resolveJob finds the job that a name stands for. Tickets count only if the job has no claim, unless tickets is set.
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

// severalUsersError is the error if entries of one ID are of several users; nil: they are not.
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
	return &usererr.Error{Text: fmt.Sprintf("%d users claim job %s, so that no answer counts: %s", len(users), id, strings.Join(claims, "; ")),
		Remedy: "name the user, too: " + strings.Join(refs, " or ")}
}
