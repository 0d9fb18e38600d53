package cli

import (
	"fmt"
	"path/filepath"

	"remshell/cli/option"
	"remshell/fault"
)

// programArgs are what stands before our own arguments of a program that reaches hosts.
func programArgs(j option.Job, program []string) ([]string, error) {
	args := j.LauncherArgs[:len(j.LauncherArgs):len(j.LauncherArgs)]
	if len(j.SSHOptions) == 0 {
		return args, nil
	}
	if name := filepath.Base(program[0]); name != "ssh" {
		return nil, &fault.Error{Text: fmt.Sprintf("--ssh-option is for ssh, and %s is another program", name), Remedy: "give it arguments of its own with -launcher-args"}
	}
	for _, o := range j.SSHOptions {
		args = append(args, "-o", string(o))
	}
	return args, nil
}
