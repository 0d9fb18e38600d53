//go:build linux

package helper

import (
	"context"
	"slices"
	"time"

	"remshell/helper/rank"
	"remshell/pmiserver/pmix/message"
)

// noAggregation is the environment entry by which users of Open MPI's launcher get each rank's help texts printed.
const noAggregation = "OMPI_MCA_orte_base_help_aggregate=0"

// printHelpText prints an error text of an MPI library, each text once for all ranks of the job (PMIX-48).
func (s *Session) printHelpText(ctx context.Context, r *Rank, text message.LogText) {
	if !s.awaitStarted(r) {
		return
	}
	if slices.Contains(r.group.pmiOffers[r.Plan.App].env, noAggregation) || !s.texts.WasPrinted(ctx, r.Number, text.Topic) {
		r.writeHelpText(text)
	}
}

// writeHelpText writes a text after what the rank has written to its standard output or error. If the stream is
// closed, the text is lost, as the rank's own output would be.
func (r *Rank) writeHelpText(text message.LogText) {
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

// printTimeout is how long a text waits for a reader.
const printTimeout = 10 * time.Second
