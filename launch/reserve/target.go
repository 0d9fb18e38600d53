package reserve

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"remshell/fault"
	"remshell/job"
)

// A target is the job that is asked, signalled or ended: on each node that has it, that of one user. Everybody can claim CPUs
// under the ID of another user's job, and would answer in its place.
type target struct {
	job.Ref
	uids []int // of the claims, by page; -1: the job has none there
}

// uid is the user of the job's claims on a page; -1: the job has none there, or the page came later.
func (t target) uid(page int) int {
	if page >= len(t.uids) {
		return -1
	}
	return t.uids[page]
}

// has reports whether a claim on a page is one of the job.
func (t target) has(page int, c job.Claim) bool { return c.Job == t.Job && c.UID == t.uid(page) }

// anywhere reports whether the job is on some page.
func (t target) anywhere() bool {
	return slices.ContainsFunc(t.uids, func(uid int) bool { return uid >= 0 })
}

// An entry is one of a job in the ledger of a node.
type entry struct {
	page int
	node string
	uid  int
	user string // by name, or by number
	ours bool
}

// entries are those of an ID in the ledgers; with tickets also of a job that waits.
func entries(pages []job.Page, ref job.Ref, tickets bool) (all []entry) {
	for i, p := range pages {
		add := func(id job.ID, uid int, user string) {
			if id == ref.Job && ref.Of(user, uid) {
				all = append(all, entry{i, p.Node, uid, cmp.Or(user, strconv.Itoa(uid)), uid == p.UID})
			}
		}
		for _, c := range p.Claims {
			add(c.Job, c.UID, c.User)
		}
		if tickets {
			for _, t := range p.Tickets {
				add(t.Job, t.UID, t.User)
			}
		}
	}
	return all
}

// findJob finds the job that a user has named. If no user is named, a job of our own is meant, or else that of the only user who
// claims the ID. If there are several, none is.
func findJob(pages []job.Page, ref job.Ref, tickets bool) (t target, several *fault.Error) {
	ref.Job = youngest(pages, ref)
	t = target{ref, slices.Repeat([]int{-1}, len(pages))}
	all := entries(pages, ref, tickets)
	if ref.User == "" {
		if ours := slices.DeleteFunc(slices.Clone(all), func(e entry) bool { return !e.ours }); len(ours) > 0 {
			all = ours
		} else if several = severalUsers(ref.Job, all); several != nil {
			return t, several
		}
	}
	for _, e := range all {
		t.uids[e.page] = e.uid
	}
	return t, nil
}

// severalUsers is the error if entries of one ID are of several users; nil: they are not.
func severalUsers(id job.ID, all []entry) *fault.Error {
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
		refs = append(refs, job.Ref{Job: id, User: user}.String())
	}
	if more := len(users) - most; more > 0 {
		claims = append(claims, fmt.Sprintf("%d more", more))
	}
	return &fault.Error{Text: fmt.Sprintf("%d users claim job %s, so that no answer counts: %s", len(users), id, strings.Join(claims, "; ")),
		Remedy: "name the user, too: " + strings.Join(refs, " or ")}
}

// youngest is the ID that is meant: "last" is the job that was started last, of the user who is named or else of ours.
func youngest(pages []job.Page, ref job.Ref) job.ID {
	if ref.Job != job.LastJob {
		return ref.Job
	}
	var last job.Claim
	for _, p := range pages {
		for _, c := range p.Claims {
			if whose := ref.User == "" && c.UID == p.UID || ref.User != "" && ref.Of(c.User, c.UID); whose && c.Since.After(last.Since) {
				last = c
			}
		}
	}
	return last.Job
}
