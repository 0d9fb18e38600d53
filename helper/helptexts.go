//go:build linux

package helper

import (
	"context"
	"slices"
	"time"

	"remshell/helper/rank"
	"remshell/pmiserver/pmix/message"
)

// noAggregation is by what a user has each rank's texts printed, as of Open MPI's own launcher.
const noAggregation = "OMPI_MCA_orte_base_help_aggregate=0"

// printHelpText prints what an MPI library has to say of what went wrong, each text once for all ranks of the job
// (PMIX-48).
func (s *session) printHelpText(ctx context.Context, r *rankProcess, text message.LogText) {
	if !s.awaitStarted(r) {
		return
	}
	if slices.Contains(r.group.pmiOffers[r.plan.App].env, noAggregation) || !s.texts.WasPrinted(ctx, r.number, text.Topic) {
		r.writeHelpText(text)
	}
}

// writeHelpText puts a text behind what the rank has written to its standard output or error. Where that is
// closed, it is lost as the rank's own words would be.
func (r *rankProcess) writeHelpText(text message.LogText) {
	terminal, merged := r.command.Terminal, r.command.MergeStderr
	file := r.stderr.File
	if text.Stdout || terminal || merged {
		file = r.stdout.File
	}
	stream, err := rank.OpenWriteEnd(file, terminal)
	if err != nil {
		return
	}
	defer stream.Close()
	stream.SetWriteDeadline(time.Now().Add(printTimeout))
	stream.WriteString(text.Text)
}

// printTimeout is how long a text waits for somebody to take it.
const printTimeout = 10 * time.Second
