package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"

	"remshell/cli/option"
	"remshell/nsswitch"
	"remshell/sshx"
	"remshell/usererr"
)

// newSSHResolver returns a function that looks a host up in the user's ssh_config. Options of mpiexec take precedence
// over the settings in that file (rule CLI-12). The function reads the files at its first call. It calls warn once for
// each line with an unknown keyword.
func newSSHResolver(j option.JobOptions, sys System, local *sshx.LocalMachine, warn func(text string)) func(ctx context.Context, alias string) (sshx.Target, error) {
	account := newAccountLookup(sys, local)
	var once sync.Once
	var user sshx.User
	var config *sshx.Config
	var failed error
	var warned sync.Map // of sshx.Unknown
	return func(ctx context.Context, alias string) (sshx.Target, error) {
		acct, err := account(ctx)
		if err != nil {
			return sshx.Target{}, &sshx.DialError{Host: alias, Step: "config", Kind: sshx.KindCanceled, Why: "cannot look up your account: " + err.Error(), Err: err}
		}
		once.Do(func() {
			user = sshUser(sys, acct)
			user.HomeOf = func(user string) string {
				home, _ := local.HomeOf(ctx, user)
				return home
			}
			config, failed = readSSHConfig(user, j)
		})
		if failed != nil {
			return sshx.Target{}, failed
		}
		t, err := config.Resolve(ctx, alias, user, local)
		for _, u := range t.Unknown {
			if _, before := warned.LoadOrStore(u, true); !before {
				warn(fmt.Sprintf("warning: %s:%d: mpiexec ignores %s, because OpenSSH %s does not have this keyword. To avoid this warning, write above that line: IgnoreUnknown %s",
					u.File, u.Line, u.Keyword, sshx.OpenSSHVersion, u.Keyword))
			}
		}
		if err == nil && j.ConnectTimeout > 0 {
			t.ConnectTimeout = 0
		}
		return t, err
	}
}

// readSSHConfig reads the files that ssh would read. With --ssh-config it reads only that file, as ssh -F
// does.
func readSSHConfig(localUser sshx.User, j option.JobOptions) (*sshx.Config, error) {
	user, system := localUser.Home+"/.ssh/config", "/etc/ssh/ssh_config"
	switch j.SSHConfig {
	case "":
	case "none":
		user, system = "", ""
	default:
		user, system = j.SSHConfig, ""
		var at *fs.PathError
		if _, err := os.Stat(user); errors.As(err, &at) {
			return nil, &usererr.Error{Text: fmt.Sprintf("--ssh-config: cannot read %s: %v", user, at.Err), Remedy: "correct the path of the file"}
		}
	}
	config, err := sshx.ReadConfig(user, system, localUser)
	if err != nil || len(j.SSHOptions) == 0 {
		return config, err
	}
	var options []string
	for _, o := range j.SSHOptions {
		options = append(options, string(o))
	}
	return config.With("--ssh-option", options)
}

// sshUser returns the user who connects. Like ssh, it takes the name and home directory from account. It does not use
// HOME, which may differ from the account's directory in a container. It uses the environment only if account is empty.
func sshUser(sys System, account nsswitch.Account) sshx.User {
	host, _ := os.Hostname()
	return sshx.User{
		Name: cmp.Or(account.Name, sys.getenv("USER"), sys.getenv("LOGNAME")),
		Home: cmp.Or(account.Home, sys.getenv("HOME")),
		UID:  syscall.Getuid(), Host: host, Getenv: sys.getenv,
	}
}

// newAccountLookup returns a function that looks up the account of the current user. The function searches /etc/passwd
// and, if the user is not there, all sources of nsswitch.conf. If it finds no account, it returns an empty one. It
// returns an error only if the context ends.
func newAccountLookup(sys System, local *sshx.LocalMachine) func(context.Context) (nsswitch.Account, error) {
	inFile := sync.OnceValue(func() nsswitch.Account { return accountInFile(sys) })
	return func(ctx context.Context) (nsswitch.Account, error) {
		if a := inFile(); a != (nsswitch.Account{}) {
			return a, nil
		}
		return local.Account(ctx, syscall.Getuid())
	}
}

// ownAccount returns the account of the current user, or an empty one if it finds none within directoryTime.
func ownAccount(sys System) nsswitch.Account {
	if a := accountInFile(sys); a != (nsswitch.Account{}) {
		return a
	}
	return nsswitch.LookupAccount(context.Background(), directoryTime, syscall.Getuid())
}

// accountInFile returns the account of the current user from /etc/passwd, or an empty account if the file does not
// contain it.
func accountInFile(sys System) nsswitch.Account {
	text, _ := fs.ReadFile(sys.FS, "etc/passwd")
	return nsswitch.ParseAccount(string(text), syscall.Getuid())
}
