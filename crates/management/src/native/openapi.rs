//! The OpenAPI document, made from the tables of operations and of fields.

use serde_json::{Map, Value as Json, json};

use super::PREFIX;
use super::cluster::{CLUSTER, FOLLOWERS, PROMOTION};
use super::export::{LINES, MESSAGES, OF_LINES};
use super::field::{Field, Kind, Member};
use super::operations::{Answers, OPERATIONS, Operation};
use super::resource::Resource;
use super::rows::{
    AUDIT, BINDINGS, CONNECTIONS, CONSUMERS, ENDINGS, EXCHANGES, FILTERS, LOG, OPERATOR_POLICIES, POLICIES, QUEUES,
    RETAINED, SUBSCRIPTIONS, USERS, VHOSTS, WILLS,
};

/// The version of the API. A change that breaks clients gets another prefix.
const VERSION: &str = "1.0.0";
/// The parameters of every list.
const OF_LISTS: [(&str, Kind, &str); 5] = [
    ("limit", Kind::Number, "Items of the page: 100, and at most 1000"),
    ("after", Kind::Text, "The cursor in next of the page before"),
    ("sort", Kind::Text, "A field, behind a minus from large to small"),
    ("filter", Kind::Text, "Conditions that all hold, as ready>1000 consumers=0 name~^orders"),
    ("fields", Kind::Text, "The fields that are wanted, with commas between them"),
];

/// The document.
pub(super) fn document() -> Json {
    let mut paths = Map::new();
    for operation in OPERATIONS {
        let path = paths.entry(format!("{PREFIX}{}", operation.path)).or_insert_with(|| json!({}));
        path[operation.method] = described(operation);
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": "Hermod", "version": VERSION },
        "paths": paths,
        "security": [{ "basic": [] }],
        "components": {
            "securitySchemes": { "basic": { "type": "http", "scheme": "basic" } },
            "schemas": schemas(),
        },
    })
}

fn described(operation: &Operation) -> Json {
    let mut parameters: Vec<Json> = names(operation.path)
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": Kind::Text.schema() }))
        .collect();
    if matches!(operation.answers, Answers::Page(_)) {
        parameters.extend(OF_LISTS.map(parameter));
    }
    if matches!(operation.answers, Answers::Lines(_)) {
        parameters.extend(OF_LINES.map(parameter));
    }
    let written =
        |form: &str, schema: Json| json!({ "200": { "description": "It", "content": { form: { "schema": schema } } } });
    let ok = |schema: Json| written("application/json", schema);
    let mut responses = match operation.answers {
        Answers::Lines(of) => written(LINES, json!({ "$ref": format!("#/components/schemas/{of}") })),
        Answers::Page(of) => ok(json!({ "$ref": format!("#/components/schemas/{of}-page") })),
        Answers::One(of) => ok(json!({ "$ref": format!("#/components/schemas/{of}") })),
        Answers::Document => ok(Kind::Object.schema()),
        Answers::Nothing => json!({ "201": { "description": "It is new" }, "204": { "description": "Done" } }),
    };
    responses["default"] = json!({
        "description": "Why not",
        "content": { "application/problem+json": { "schema": { "$ref": "#/components/schemas/problem" } } },
    });
    let mut described = json!({ "summary": operation.about, "parameters": parameters, "responses": responses });
    if !operation.takes.is_empty() {
        let members = object(operation.takes.iter().map(|Member { name, kind, about }| (*name, kind.schema(), *about)));
        described["requestBody"] = json!({ "content": { "application/json": { "schema": members } } });
    }
    described
}

/// A parameter of a query.
fn parameter((name, kind, about): (&str, Kind, &str)) -> Json {
    json!({ "name": name, "in": "query", "description": about, "schema": kind.schema() })
}

/// The names in braces of a path.
fn names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

fn object<'a>(members: impl Iterator<Item = (&'a str, Json, &'a str)>) -> Json {
    let described = |(name, mut schema, about): (&str, Json, &str)| {
        schema["description"] = json!(about);
        (name.to_owned(), schema)
    };
    json!({ "type": "object", "properties": members.map(described).collect::<Map<_, _>>() })
}

fn schemas() -> Json {
    let mut schemas = Map::new();
    add(&mut schemas, &QUEUES);
    add(&mut schemas, &EXCHANGES);
    add(&mut schemas, &BINDINGS);
    add(&mut schemas, &CONNECTIONS);
    add(&mut schemas, &CONSUMERS);
    add(&mut schemas, &ENDINGS);
    add(&mut schemas, &SUBSCRIPTIONS);
    add(&mut schemas, &RETAINED);
    add(&mut schemas, &WILLS);
    add(&mut schemas, &VHOSTS);
    add(&mut schemas, &USERS);
    add(&mut schemas, &POLICIES);
    add(&mut schemas, &OPERATOR_POLICIES);
    add(&mut schemas, &LOG);
    add(&mut schemas, &AUDIT);
    schemas.insert("messages".to_owned(), row(MESSAGES));
    schemas.insert("filters".to_owned(), row(FILTERS));
    schemas.insert("cluster".to_owned(), row(CLUSTER));
    schemas.insert("followers".to_owned(), row(FOLLOWERS));
    schemas.insert("promotion".to_owned(), row(PROMOTION));
    let problem = [
        ("type", Kind::Text, "about:blank"),
        ("title", Kind::Text, "The kind of refusal"),
        ("status", Kind::Number, "The status of the answer"),
        ("detail", Kind::Text, "What is wrong, and what to do"),
    ];
    let members = problem.into_iter().map(|(name, kind, about)| (name, kind.schema(), about));
    schemas.insert("problem".to_owned(), object(members));
    schemas.into()
}

/// The schema of a thing with these fields.
fn row<T>(fields: &[Field<T>]) -> Json {
    let schema = |field: &Field<T>| {
        let mut schema = field.kind.schema();
        if field.is_nullable {
            schema["type"] = json!([schema["type"], "null"]);
        }
        (field.name, schema, field.about)
    };
    let mut row = object(fields.iter().map(schema));
    row["required"] = fields.iter().map(|field| json!(field.name)).collect();
    row
}

fn add<T: Send + Sync>(schemas: &mut Map<String, Json>, resource: &Resource<T>) {
    let page = json!({
        "type": "object",
        "properties": {
            "items": { "type": "array", "items": { "$ref": format!("#/components/schemas/{}", resource.name) } },
            "next": { "type": ["string", "null"], "description": "Where the next page begins; null on the last" },
            "total": { "type": "integer", "description": "How many there are that the filter lets through" },
        },
        "required": ["items", "next", "total"],
    });
    schemas.insert(resource.name.to_owned(), row(resource.fields));
    schemas.insert(format!("{}-page", resource.name), page);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_reference_of_the_document_leads_somewhere() {
        let document = document();
        let text = document.to_string();
        let references: BTreeSet<&str> =
            text.split("\"#/components/schemas/").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert!(references.len() > 15, "{references:?}");
        for name in references {
            assert!(document["components"]["schemas"][name].is_object(), "{name}");
        }
        let operations: BTreeSet<_> = OPERATIONS.iter().map(|operation| (operation.method, operation.path)).collect();
        assert_eq!(operations.len(), OPERATIONS.len(), "an operation is there twice");
    }
}
