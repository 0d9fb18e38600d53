package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"time"

	"remshell/cli/aprun"
	"remshell/cli/option"
	"remshell/sshx"
)

// This file completes command lines for a shell (package option).

// completionWords returns the words of the command line that a shell wants to complete. requested is false if
// args are not a request for completion.
func completionWords(args []string) (words []string, requested bool) {
	if len(args) < 2 || args[0] != option.CompletionOption {
		return nil, false
	}
	return args[1:], true
}

// A completer is a table of options that can complete the last word of a command line.
type completer interface {
	Complete(words []string, lists option.CompletionLists) option.Completion
}

// printCompletion prints the words that may replace the last word of a command line of mpiexec or mpijob.
func printCompletion(ctx context.Context, words []string, table completer, sys System) error {
	lists := option.CompletionLists{Hosts: func() []string { return hostNames(sys) }, Jobs: func() []string { return localJobs(ctx, sys) }}
	_, err := io.WriteString(sys.Out, table.Complete(words, lists).String())
	return err
}

// printAprunCompletion prints the words that may replace the last word of an aprun command line.
func printAprunCompletion(words []string, sys System) error {
	kind, from, candidates := aprun.Complete(words)
	_, err := io.WriteString(sys.Out, option.Completion{Kind: option.CompletionKind(kind), Start: from, Candidates: candidates}.String())
	return err
}

// hostNames returns localhost and the hosts that ssh_config and known_hosts files name, in sorted order.
func hostNames(sys System) []string {
	user := sshUser(sys, ownAccount(sys))
	names := []string{"localhost"}
	if config, err := readSSHConfig(user, option.JobOptions{}); err == nil {
		names = append(names, config.Names()...)
	}
	for _, file := range []string{user.Home + "/.ssh/known_hosts", user.Home + "/.ssh/known_hosts2", "/etc/ssh/ssh_known_hosts"} {
		names = append(names, sshx.KnownNames(file)...)
	}
	names = slices.DeleteFunc(names, hasShellChars)
	slices.Sort(names)
	return slices.Compact(names)
}

// hasShellChars reports whether a name is empty, begins with "-", or has characters other than letters, digits and
// ._-:@, which a shell might interpret.
func hasShellChars(name string) bool {
	return name == "" || strings.HasPrefix(name, "-") || strings.ContainsFunc(name, func(r rune) bool {
		return r > 0x7e || !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:@", r)
	})
}

// localJobs returns the jobs on this machine that --ps would list. It also returns "last", which stands for the user's
// newest job.
func localJobs(ctx context.Context, sys System) (jobs []string) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var text bytes.Buffer
	sys.In, sys.Out, sys.Err = strings.NewReader(""), &text, io.Discard
	Main(ctx, []string{"--ps", "--json", "-q", "-host", "localhost"}, sys)
	var page struct {
		Jobs []struct {
			Job string `json:"job"`
		} `json:"jobs"`
	}
	json.Unmarshal(text.Bytes(), &page) // without an answer no job is a candidate
	for _, j := range page.Jobs {
		jobs = append(jobs, j.Job)
	}
	return slices.DeleteFunc(append(jobs, "last"), hasShellChars)
}
