package stacks

import (
	"context"
	"fmt"

	"remshell/cli/option"
	"remshell/cli/setup"
	"remshell/feature/stacks/tree"
	"remshell/format"
	"remshell/job"
	"remshell/launch/reserve"
	"remshell/usererr"
)

func init() {
	setup.RegisterListing("status", setup.Listing{
		If:     func(line option.Line) bool { return option.ValuesOf[Options](line).Stacks != "" },
		Read:   readStacks,
		Format: formatStacks,
	})
}

// readStacks requests the stacks of a job from its mpiexec, and returns them as a listing. It sets ref.Job to the ID
// of the job.
func readStacks(ctx context.Context, line option.Line, req job.Request, env reserve.Env, ref *job.JobRef) ([]job.LedgerListing, error) {
	var args []string
	if ranks := option.ValuesOf[Options](line).Stacks; ranks != "all" {
		args = []string{"ranks=" + ranks}
	}
	pages, asked, err := reserve.Stacks(ctx, req, env, *ref, args)
	switch {
	case err != nil || asked.Node == "":
		return pages, err
	case asked.Reply.State != job.ReplyDone || asked.Reply.Stacks == nil:
		return nil, &usererr.Error{Text: fmt.Sprintf("%s: %s", asked.Node, asked.Reply.Text)}
	}
	ref.Job = asked.Job
	return append(pages, job.LedgerListing{Node: asked.Node, Stacks: asked.Reply.Stacks}), nil
}

// formatStacks returns a text with the state of the job and the stacks of its ranks. found is false if l does not list
// the job.
func formatStacks(l format.Ledger, ref job.JobRef) (text string, found bool) {
	if text, found = l.FormatStatus(ref); !found {
		return "", false
	}
	if s := l.Stacks(); s != nil {
		text += "\n" + tree.Format(*s)
	}
	return text, true
}
