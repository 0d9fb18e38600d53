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

// This file answers a shell that completes a command line of ours (package option).

// completionWords is the words that a shell asks about, if args are its request.
func completionWords(args []string) (words []string, asked bool) {
	if len(args) < 2 || args[0] != option.CompletionOption {
		return nil, false
	}
	return args[1:], true
}

// printCompletion answers with what may stand in the place of the last word.
func printCompletion(ctx context.Context, words []string, table *option.Table, sys System) error {
	lists := option.CompletionLists{Hosts: func() []string { return hostNames(sys) }, Jobs: func() []string { return localJobs(ctx, sys) }}
	_, err := io.WriteString(sys.Out, table.Complete(words, lists).String())
	return err
}

// printAprunCompletion is complete for a line of aprun's.
func printAprunCompletion(words []string, sys System) error {
	kind, from, offers := aprun.Complete(words)
	_, err := io.WriteString(sys.Out, option.Completion{Kind: option.CompletionKind(kind), Start: from, Candidates: offers}.String())
	return err
}

// hostNames lists the hosts that ssh knows by name here, by the files of the account.
func hostNames(sys System) []string {
	me := sshUser(sys, ownAccount(sys))
	names := []string{"localhost"}
	if config, err := readSSHConfig(me, option.JobOptions{}); err == nil {
		names = append(names, config.Names()...)
	}
	for _, file := range []string{me.Home + "/.ssh/known_hosts", me.Home + "/.ssh/known_hosts2", "/etc/ssh/ssh_known_hosts"} {
		names = append(names, sshx.KnownNames(file)...)
	}
	names = slices.DeleteFunc(names, hasShellChars)
	slices.Sort(names)
	return slices.Compact(names)
}

// hasShellChars reports whether a name has letters that mean something to a shell.
func hasShellChars(name string) bool {
	return name == "" || strings.HasPrefix(name, "-") || strings.ContainsFunc(name, func(r rune) bool {
		return r > 0x7e || !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:@", r)
	})
}

// localJobs lists the jobs on this machine, as --ps tells them; "last" is the user's last one.
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
	json.Unmarshal(text.Bytes(), &page) // if nothing came, there are no jobs to offer
	for _, j := range page.Jobs {
		jobs = append(jobs, j.Job)
	}
	return slices.DeleteFunc(append(jobs, "last"), hasShellChars)
}
