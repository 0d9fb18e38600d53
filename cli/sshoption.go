package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// An SSHOption is KEY=VALUE of --ssh-option, as -o of ssh has it.
type SSHOption string

func (o *SSHOption) UnmarshalText(text []byte) error {
	key, value, found := strings.Cut(string(text), "=")
	if !found || key == "" || strings.Trim(key, letters) != "" || strings.TrimSpace(value) == "" || strings.ContainsAny(value, "\n\r") {
		return errors.New("not KEY=VALUE, as Port=2222")
	}
	*o = SSHOption(text)
	return nil
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// programArgs are what stands before our own arguments of a program that reaches hosts.
func programArgs(j JobOptions, program []string) ([]string, error) {
	args := j.LauncherArgs[:len(j.LauncherArgs):len(j.LauncherArgs)]
	if len(j.SSHOptions) == 0 {
		return args, nil
	}
	if name := filepath.Base(program[0]); name != "ssh" {
		return nil, &UsageError{fmt.Sprintf("--ssh-option is for ssh, and %s is another program", name), "give it arguments of its own with -launcher-args"}
	}
	for _, o := range j.SSHOptions {
		args = append(args, "-o", string(o))
	}
	return args, nil
}
