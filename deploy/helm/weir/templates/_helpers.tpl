{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/* The name of all objects of a release: the release's own. */}}
{{- define "weir.name" -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "weir.labels" -}}
app.kubernetes.io/name: weir
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{/* What selects the pods of a release. It may not change while the release lives. */}}
{{- define "weir.selector" -}}
app.kubernetes.io/name: weir
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "weir.image" -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{- define "weir.seLinux" -}}
{{- with .Values.security.seLinuxType }}
seLinuxOptions: {type: {{ . }}}
{{- end }}
{{- end }}

{{/* A list of fields of a policy as CEL has the annotations that say them: ["weir.dev/min"]. */}}
{{- define "weir.annotations" -}}
{{- $names := list }}
{{- range . }}{{ $names = append $names (printf "'weir.dev/%s'" (replace "_" "-" .)) }}{{ end -}}
[{{ join ", " $names }}]
{{- end }}

{{/* Each annotation that Weir knows: on pods, and on namespaces. A test holds it in step with the program. */}}
{{- define "weir.knownOnPods" -}}
{{- include "weir.annotations" (list "weight" "min" "max" "burst" "reserve" "limit_packets" "limit_bytes" "discipline" "queues" "aqm" "isolation" "dscp" "group" "zones" "quota" "when" "ingress.weight" "ingress.min" "ingress.max" "ingress.burst" "ingress.reserve" "ingress.limit_packets" "ingress.limit_bytes" "ingress.discipline" "ingress.queues" "ingress.aqm" "ingress.isolation" "ingress.dscp" "ingress.zones" "ingress.when") }}
{{- end }}
{{- define "weir.knownOnNamespaces" -}}
{{- include "weir.annotations" (list "weight" "min" "max" "burst" "zones" "quota" "when") }}
{{- end }}
