// SPDX-License-Identifier: Apache-2.0

package config

import "weir/internal/base/tlsfile"

// Kafka holds the settings by which a member of the cluster connects to Kafka's brokers,
// where those are the bus. Manager and nodes each have their own; none of them travels.
type Kafka struct {
	TLS          bool          // tls is given
	Files        tlsfile.Files // of tls
	Mechanism    string        // of SASL, "" = none
	User         string
	PasswordFile string
}

func (k *Kafka) read(fields node) {
	fields.fields([]string{"tls", "sasl"}, func(key string, value node) {
		switch key {
		case "tls":
			k.TLS = value.given()
			value.fields([]string{"ca", "cert", "key", "server_name"}, func(key string, value node) {
				switch key {
				case "ca":
					if text, _ := value.text(); text != "system" {
						readPath(value, &k.Files.CA)
					}
				case "cert":
					readPath(value, &k.Files.Cert)
				case "key":
					readPath(value, &k.Files.Key)
				case "server_name":
					readText(value, &k.Files.ServerName)
				}
			})
		case "sasl":
			value.fields([]string{"mechanism", "user", "password_file"}, func(key string, value node) {
				switch key {
				case "mechanism":
					readText(value, &k.Mechanism)
				case "user":
					readText(value, &k.User)
				case "password_file":
					readPath(value, &k.PasswordFile)
				}
			})
		}
	})
}
