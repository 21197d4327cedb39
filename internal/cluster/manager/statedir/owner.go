// SPDX-License-Identifier: Apache-2.0

package statedir

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"weir/internal/core/refusal"
)

// User is the system user that the manager runs as where systemd starts it.
const User = "weir-manager"

// HandOver gives what root has made in a manager's folder to the user who will run the
// manager: the folder's owner, or User if the folder is Default and root's. Called by
// others than root it does nothing.
func HandOver(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	uid, gid, err := ownerOf(dir)
	if err != nil {
		return err
	}
	if uid == 0 && filepath.Clean(dir) == Default {
		if u, err := user.Lookup(User); err == nil {
			uid, gid, err = ids(u)
			if err != nil {
				return err
			}
		}
	}
	if uid == 0 {
		return nil
	}
	return handOver(dir, uid, gid)
}

// handOver changes the owner of a folder, and of root's folders and files in it. The
// owner may be at work in it: no path leads out of the folder, and a file with a second
// name, which may be elsewhere, stays root's.
func handOver(dir string, uid, gid int) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return fs.WalkDir(root.FS(), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := root.Lstat(path)
		if err != nil {
			return err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok || st.Uid != 0 || !info.IsDir() && st.Nlink != 1 {
			return nil
		}
		return root.Lchown(path, uid, gid)
	})
}

// CheckOwner refuses to run the manager as root in a folder of another user: what root
// writes there, that user could not read the next time.
func CheckOwner(dir string) error {
	uid, _, err := ownerOf(dir)
	if err != nil || os.Geteuid() != 0 || uid == 0 {
		return nil // a folder that is missing is reported when it is opened
	}
	name := strconv.Itoa(uid)
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	return &refusal.Error{Kind: refusal.Conflict, Field: "manager.state_dir", Value: dir, Msg: fmt.Sprintf("belongs to user %s, and root runs this", name),
		Remedy: "run systemctl start weir-manager, or: setpriv --reuid " + name + " --regid weir --clear-groups weir manager serve"}
}

func ownerOf(dir string) (uid, gid int, err error) {
	info, err := os.Stat(dir)
	if err != nil {
		return 0, 0, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, fmt.Errorf("%s: its file system does not say who owns it; choose a --state-dir on a local disk", dir)
	}
	return int(st.Uid), int(st.Gid), nil
}

func ids(u *user.User) (uid, gid int, err error) {
	if uid, err = strconv.Atoi(u.Uid); err == nil {
		gid, err = strconv.Atoi(u.Gid)
	}
	return uid, gid, err
}
