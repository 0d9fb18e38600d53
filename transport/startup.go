package transport

import "path"

// startupFiles are the files that login shells read first when sshd runs a single command (sshd(8)). bash
// reads .bashrc then although it is not interactive. sh, dash, ksh and mksh read no file then.
var startupFiles = map[string]string{
	"bash": "~/.bashrc",
	"csh":  "~/.cshrc",
	"tcsh": "~/.tcshrc or ~/.cshrc",
	"fish": "~/.config/fish/config.fish",
	"zsh":  "~/.zshenv",
}

// StartupFile describes the file that a login shell reads first. The shell on the host is unknown; it is
// mostly the same as the user's shell on this machine, which is the argument.
func StartupFile(shell string) string {
	name := path.Base(shell)
	if file := startupFiles[name]; file != "" {
		return file + " (of " + name + ")"
	}
	return "its start-up file (~/.bashrc, ~/.cshrc, ~/.config/fish/config.fish, ~/.zshenv)"
}
