{{- define "hermod.name" -}}
{{- if contains "hermod" .Release.Name }}{{ .Release.Name }}{{ else }}{{ .Release.Name }}-hermod{{ end }}
{{- end }}

{{- define "hermod.selector" -}}
app.kubernetes.io/name: hermod
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "hermod.labels" -}}
{{ include "hermod.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "hermod.secret" -}}
{{- .Values.user.existingSecret | default (include "hermod.name" .) }}
{{- end }}
