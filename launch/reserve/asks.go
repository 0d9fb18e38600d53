package reserve

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"remshell/fault"
	"remshell/job"
	"remshell/wire"
)

// This file has a word with jobs that run (survive.md 7): by a node of theirs, whichever answers first.

// An Asked is what a job has said to an ask.
type Asked struct {
	Job    job.ID
	Node   string // by which it was asked; empty: no node has the job
	Answer job.Answer
}

// How long the helper of who asks may take for the last word.
const (
	finalTime = 10 * time.Minute
	waitTime  = 365 * 24 * time.Hour // where the job says for how long: its grace, or CPUs that others have
)

// patienceWith is how long who asks for something waits for the last word of the job. That there is a first one, his helper sees
// to (survive.md SV-26); then a job takes its own time to write a checkpoint, and so does one that is moved,
// suspended behind one, or ended.
func patienceWith(verb job.Verb) time.Duration {
	switch verb {
	case job.AskCheckpoint, job.AskMigrate, job.AskEnd, job.AskSuspend, job.AskSuspendFree:
		return waitTime
	}
	return finalTime
}

// Ask has a word with a job by one of its nodes.
func Ask(ctx context.Context, req job.Request, env Env, ask job.Ask) (asked Asked, err error) {
	req.Limits.Start = patienceWith(ask.Verb) // what is asked for takes longer than a start
	if req.Wait && ask.Verb == job.AskResume {
		req.Limits.Start = finalTime + cmp.Or(req.Limits.Wait, waitTime)
	}
	err = visit(ctx, req, env, func(ctx context.Context, r *reservation) error {
		r.saySkipped()
		pages, err := r.pages(ctx, "")
		switch {
		case err != nil:
		case ask.Verb == job.AskResume && vacant(pages, youngest(pages, ask.Job)):
			asked, err = r.askToResume(ctx, pages, ask)
		default:
			asked, err = r.askJob(ctx, pages, ask)
		}
		return err
	})
	return asked, err
}

// askToResume lets a job go on that has to claim its CPUs again. That is decided behind the gate, which
// the asker shuts, so that no request is decided upon meanwhile; with --wait it is asked again after each change,
// as long as it is for what others claim that it cannot go on (survive.md SV-30).
func (r *reservation) askToResume(ctx context.Context, pages []job.Page, ask job.Ask) (asked Asked, err error) {
	ctx, done := r.queue.Patience(ctx)
	defer done()
	for told := ""; ; {
		err = r.queue.BehindGate(ctx, func() (err error) {
			asked, err = r.askJob(ctx, pages, ask)
			return err
		})
		if err != nil || !asked.Answer.Later || !r.req.Wait {
			return asked, err
		}
		if text := fmt.Sprintf("waiting until job %s can go on: %s", asked.Job, asked.Answer.Text); text != told {
			r.env.Say(text)
			told = text
		}
		ask.Job = asked.Job
		r.watchClaims()
		if err := r.queue.AwaitChange(ctx); err != nil {
			return asked, err
		}
	}
}

// vacant reports whether others may have the CPUs of a job, as far as nodes tell.
func vacant(pages []job.Page, id job.ID) bool {
	return slices.ContainsFunc(pages, func(p job.Page) bool {
		return slices.ContainsFunc(p.Claims, func(c job.Claim) bool { return c.Job == id && c.Suspended })
	})
}

// Status is Pages for one job: all of its ranks tell what they are doing, on whatever nodes they are, if
// it obeys us. asked is void if nobody had to be asked.
func Status(ctx context.Context, req job.Request, env Env, id job.ID) (pages []job.Page, asked Asked, err error) {
	err = visit(ctx, req, env, func(ctx context.Context, r *reservation) error {
		r.saySkipped()
		pages, err = r.pages(ctx, id)
		if err != nil {
			return err
		}
		asked.Job = youngest(pages, id)
		if id != asked.Job {
			if pages, err = r.pages(ctx, asked.Job); err != nil {
				return err
			}
		}
		if told(pages) >= sizeOf(pages, asked.Job) {
			return nil
		}
		asked, err = r.askJob(ctx, pages, job.Ask{Job: asked.Job, Verb: job.AskStatus})
		var first []job.Page // the job knows more than the kernel
		for _, s := range asked.Answer.Ranks {
			first = append(first, job.Page{Node: s.Node, States: []job.RankState{s.RankState}})
		}
		pages = append(first, pages...)
		return err
	})
	return pages, asked, err
}

// askJob asks by a node of the job.
func (r *reservation) askJob(ctx context.Context, pages []job.Page, ask job.Ask) (asked Asked, err error) {
	ask.Job, ask.Since = youngest(pages, ask.Job), time.Now()
	asked.Job = ask.Job
	i, hears := byWhom(pages, ask.Job)
	if i < 0 {
		return asked, nil
	}
	if asked.Node = pages[i].Node; !hears {
		asked.Answer = job.Answer{State: job.AskRefused, Text: fmt.Sprintf("job %s has no rank there, it holds it in reserve; name a host of its ranks", ask.Job)}
		return asked, nil
	}
	question := r.question(ask)
	err = r.ask(ctx, patienceWith(ask.Verb), []*host{r.hosts[i]}, func(*host) wire.Message { return question },
		func(_ *host, m wire.Message) bool {
			answer, ok := m.(*wire.Answer)
			if ok = ok && answer.ID == question.ID; ok {
				asked.Answer = job.Answer{Job: ask.Job, State: answer.State, Text: answer.Text, Later: answer.Later, Ranks: answer.Ranks}
			}
			return ok
		})
	if lost := r.hosts[i].lost; err == nil && asked.Answer.State == "" && lost != nil {
		asked.Answer = job.Answer{State: job.AskRefused, Text: fault.Reason(lost)}
	}
	return asked, err
}

// question is an ask with a name of its own, by which its answer is known.
func (r *reservation) question(ask job.Ask) *wire.Ask {
	r.questions++
	return &wire.Ask{ID: strconv.Itoa(r.questions), Ledger: r.req.Queue.Ledger, Ask: ask}
}

// byWhom is the page of the node by which a job is asked, the first that has a claim of it; of several who say it is
// theirs one of ours. What it only holds for an attempt that may follow hears nothing, and counts where there is nothing
// else. -1: there is none.
func byWhom(pages []job.Page, id job.ID) (i int, hears bool) {
	for _, kind := range []struct{ ours, hears bool }{{true, true}, {false, true}, {true, false}, {false, false}} {
		i = slices.IndexFunc(pages, func(p job.Page) bool {
			return slices.ContainsFunc(p.Claims, func(c job.Claim) bool {
				return c.Job == id && (!kind.ours || c.UID == p.UID) && (!kind.hears || c.Resting != job.Spare)
			})
		})
		if i >= 0 {
			return i, kind.hears
		}
	}
	return -1, false
}

// youngest is the job that is meant: "last" is that of ours which was started last.
func youngest(pages []job.Page, id job.ID) job.ID {
	if id != job.LastJob {
		return id
	}
	var last job.Claim
	for _, p := range pages {
		for _, c := range p.Claims {
			if c.UID == p.UID && c.Since.After(last.Since) {
				last = c
			}
		}
	}
	return last.Job
}

// told is of how many ranks a helper has told what they are doing, and not the kernel alone.
func told(pages []job.Page) int {
	ranks := make(map[int]bool)
	for _, p := range pages {
		for _, s := range p.States {
			ranks[s.Rank] = s.Life != "alive"
		}
	}
	return len(slices.DeleteFunc(slices.Collect(maps.Keys(ranks)), func(r int) bool { return !ranks[r] }))
}

// sizeOf is how many ranks a job has, as it says; 0: it does not run.
func sizeOf(pages []job.Page, id job.ID) (size int) {
	for _, p := range pages {
		for _, c := range p.Claims {
			if c.Job == id {
				size = max(size, c.Size)
			}
		}
	}
	return size
}

// pages reads the ledgers of all candidates, in their order.
func (r *reservation) pages(ctx context.Context, id job.ID) (pages []job.Page, err error) {
	if id == job.LastJob {
		id = ""
	}
	read := make(map[*host]job.Page)
	err = r.ask(ctx, lookTime, r.hosts, func(*host) wire.Message { return &wire.List{Ledger: r.req.Queue.Ledger, Job: id} },
		func(n *host, m wire.Message) bool {
			listed, ok := m.(*wire.Listed)
			if ok {
				n.had = listed.Had
				read[n] = job.Page{Node: n.def.Name, Queue: r.queue.Keeps(n), UID: listed.UID,
					Claims: listed.Claims, Tickets: listed.Tickets, States: listed.States, Err: listed.Err, Notice: listed.Notice}
			}
			return ok
		})
	for _, n := range r.hosts {
		page, answered := read[n]
		if !answered && n.lost != nil {
			page = job.Page{Node: n.def.Name, Err: fault.Reason(n.lost)}
		}
		pages = append(pages, page)
	}
	return pages, err
}
