package status

import (
	"context"
	"fmt"

	"remshell/cli/option"
	"remshell/cli/setup"
	"remshell/format"
	"remshell/job"
	"remshell/launch/reserve"
)

func init() {
	setup.RegisterListing("status", setup.Listing{Read: readStates, Format: format.Ledger.FormatStatus})
}

// readStates reads the ledgers of hosts for --status. A ledger is the directory of a host's jobs. If this user may
// control the job, the listings say what each of its ranks is doing (rule SV-27). If the job refuses the request,
// readStates reports that, and the listings contain only the contents of the ledgers. readStates sets ref.Job to the
// ID of the job, if it has found the job.
func readStates(ctx context.Context, _ option.Line, req job.Request, env reserve.Env, ref *job.JobRef) ([]job.LedgerListing, error) {
	pages, asked, err := reserve.Status(ctx, req, env, *ref)
	if err == nil && asked.Job != "" {
		ref.Job = asked.Job
	}
	if err == nil && asked.Reply.Text != "" {
		env.Report(fmt.Sprintf("%s: %s", asked.Node, asked.Reply.Text))
	}
	return pages, err
}
