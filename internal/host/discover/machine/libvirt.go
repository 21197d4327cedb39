// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"encoding/xml"
	"errors"
	"net"
	"path/filepath"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/digitalocean/go-libvirt/socket/dialers"

	"weir/internal/core/bound"
)

// libvirtDrivers are the drivers of libvirt whose guests have interfaces on the host.
var libvirtDrivers = []libvirt.ConnectURI{libvirt.QEMUSystem, "lxc:///system", libvirt.XenSystem}

// ofLibvirtFiles reads the files that libvirt keeps of running guests.
func (f *Finder) ofLibvirtFiles() map[string]NIC {
	found := map[string]NIC{}
	for _, folder := range f.LibvirtFolders {
		files, _ := filepath.Glob(filepath.Join(folder, "*.xml")) // the pattern is right
		for _, file := range files {
			text, err := readAtMost(file, bound.Machine+1)
			if err != nil {
				continue // the machine has just stopped
			}
			machine, devices := parseStatus(text)
			note(found, machine, devices)
		}
	}
	return found
}

// ofLibvirtSocket asks a daemon of libvirt, which may be one for all drivers or for one.
func ofLibvirtSocket(path string) (map[string]NIC, error) {
	found := map[string]NIC{}
	var err error
	for _, driver := range libvirtDrivers {
		var conn net.Conn
		if conn, err = net.DialTimeout("unix", path, patience); err != nil {
			return nil, err
		}
		err = ofDriver(found, conn, driver)
		_ = conn.Close()
		if err != nil && !isRefusal(err) {
			return found, err
		}
	}
	return found, nil
}

// isRefusal reports whether a daemon has answered, such as that it does not have a driver.
func isRefusal(err error) bool {
	_, refused := errors.AsType[libvirt.Error](err)
	return refused
}

// ofDriver asks for the running guests of one driver.
func ofDriver(found map[string]NIC, conn net.Conn, driver libvirt.ConnectURI) error {
	// The library takes a deadline for something that passes, and goes on reading.
	defer time.AfterFunc(patience, func() { _ = conn.Close() }).Stop()
	daemon := libvirt.NewWithDialer(dialers.NewAlreadyConnected(conn))
	if err := daemon.ConnectToURI(driver); err != nil {
		return err
	}
	domains, _, err := daemon.ConnectListAllDomains(1, libvirt.ConnectListDomainsActive)
	for _, d := range domains {
		text, err := daemon.DomainGetXMLDesc(d, 0)
		if err != nil {
			continue // it has just stopped
		}
		machine, devices := parseDomain([]byte(text))
		note(found, machine, devices)
	}
	return errors.Join(err, daemon.Disconnect())
}

// domain is libvirt's description of a guest.
type domain struct {
	Name       string `xml:"name"`
	Interfaces []struct {
		Target struct {
			Dev string `xml:"dev,attr"`
		} `xml:"target"`
	} `xml:"devices>interface"`
}

// parseStatus reads libvirt's state of a guest; nothing if it is too long or not understood.
func parseStatus(text []byte) (machine string, devices []string) {
	var status struct {
		Domain domain `xml:"domain"`
	}
	if len(text) > bound.Machine || xml.Unmarshal(text, &status) != nil {
		return "", nil
	}
	return status.Domain.devices()
}

// parseDomain reads the description alone.
func parseDomain(text []byte) (machine string, devices []string) {
	var d domain
	if len(text) > bound.Machine || xml.Unmarshal(text, &d) != nil {
		return "", nil
	}
	return d.devices()
}

func (d domain) devices() (machine string, devices []string) {
	for _, i := range d.Interfaces {
		devices = append(devices, i.Target.Dev)
	}
	return d.Name, devices
}
