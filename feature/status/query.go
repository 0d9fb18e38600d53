package status

import (
	"context"
	"fmt"

	"remshell/cli/setup"
	"remshell/format"
	"remshell/job"
	"remshell/launch/reserve"
)

func init() {
	setup.RegisterListing("status", setup.Listing{Read: readStates, Format: format.Ledger.FormatStatus})
}

// readStates reads the ledgers. If the job obeys this user, the listings say what each of its ranks is doing (SV-27). If the
// job refuses, that is reported, and the listings have only what the ledgers say. It completes ref.
func readStates(ctx context.Context, req job.Request, env reserve.Env, ref *job.JobRef) ([]job.LedgerListing, error) {
	pages, asked, err := reserve.Status(ctx, req, env, *ref)
	if err == nil && asked.Job != "" {
		ref.Job = asked.Job
	}
	if err == nil && asked.Reply.Text != "" {
		env.Report(fmt.Sprintf("%s: %s", asked.Node, asked.Reply.Text))
	}
	return pages, err
}
