//go:build linux

package helper

import (
	"context"
	"slices"
	"time"

	"remshell/helper/rank"
	"remshell/pmiserver/pmix/message"
)

// wantsAll is by what a user has each rank's texts printed, as of Open MPI's own launcher.
const wantsAll = "OMPI_MCA_orte_base_help_aggregate=0"

// utter prints what an MPI library has to say of what went wrong, each text once for all ranks of the job
// (PMIX-48).
func (s *session) utter(ctx context.Context, r *process, text message.LogText) {
	if !s.awaitBirth(r) {
		return
	}
	if slices.Contains(r.group.offers[r.plan.App].env, wantsAll) || !s.texts.IsKnown(ctx, r.number, text.Topic) {
		r.utter(text)
	}
}

// utter puts a text behind what the rank has written to its standard output or error. Where that is
// closed, it is lost as the rank's own words would be.
func (r *process) utter(text message.LogText) {
	terminal, merged := r.command.Terminal, r.command.Merge
	file := r.err.File
	if text.Stdout || terminal || merged {
		file = r.out.File
	}
	stream, err := rank.Behind(file, terminal)
	if err != nil {
		return
	}
	defer stream.Close()
	stream.SetWriteDeadline(time.Now().Add(printPatience))
	stream.WriteString(text.Text)
}

// printPatience is how long a text waits for somebody to take it.
const printPatience = 10 * time.Second
